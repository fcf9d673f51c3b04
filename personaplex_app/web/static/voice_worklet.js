// The two ends of a talk in the browser's audio thread: the ear plays what comes, the mouth sends what is said.
//
// Ear: ArrayBuffers of PCM16 at 24 kHz come by its port; a report goes back five times a second.
// Mouth: {sound: ArrayBuffer of 20 ms PCM16 at 24 kHz, level: rms} goes out by its port.
// Must not know: the page, the socket. Needs the classes of playout.js and resample.js in the same worklet.
"use strict";
{
  const RATE_HZ = 24000;
  const PACKET = RATE_HZ / 50;
  const REPORT_SECONDS = 0.2;
  const { personaplexPlayout: Playout, personaplexResampler: Resampler } = globalThis;

  class End extends AudioWorkletProcessor {
    constructor() {
      super();
      this.going = true;
      this.port.onmessage = ({ data }) => (data === "stop" ? (this.going = false) : this.take(data));
    }

    take() {}
  }

  class Ear extends End {
    constructor() {
      super();
      this.playout = new Playout();
      this.resampler = new Resampler(RATE_HZ, sampleRate);
      this.ready = new Float32Array(0); // at the context's rate
      this.reportAt = currentTime + REPORT_SECONDS;
    }

    take(data) {
      const pcm16 = new Int16Array(data, 0, data.byteLength >> 1);
      this.playout.push(Float32Array.from(pcm16, (sample) => sample / 32768));
    }

    process(inputs, outputs) {
      const [first, ...others] = outputs[0];
      while (this.ready.length < first.length) this._makeReady(first.length);
      first.set(this.ready.subarray(0, first.length));
      others.forEach((channel) => channel.set(first));
      this.ready = this.ready.slice(first.length);
      if (currentTime >= this.reportAt) this._report();
      return this.going;
    }

    _makeReady(samples) {
      const pulled = new Float32Array(Math.ceil((samples * RATE_HZ) / sampleRate));
      this.playout.pull(pulled);
      const made = this.resampler.push(pulled);
      const ready = new Float32Array(this.ready.length + made.length);
      ready.set(this.ready);
      ready.set(made, this.ready.length);
      this.ready = ready;
    }

    _report() {
      this.reportAt = currentTime + REPORT_SECONDS;
      this.port.postMessage(this.playout.report());
    }
  }

  class Mouth extends End {
    constructor() {
      super();
      this.resampler = new Resampler(sampleRate, RATE_HZ);
      this.packet = new Int16Array(PACKET);
      this.filled = 0;
      this.energy = 0;
    }

    process([input], [output]) {
      const said = input[0] || new Float32Array(output[0].length); // no microphone yet: silence goes at the pace of time
      for (const sample of this.resampler.push(said)) this._put(sample);
      return this.going;
    }

    _put(sample) {
      this.packet[this.filled] = Math.round(Math.max(-32768, Math.min(32767, sample * 32768)));
      this.energy += sample * sample;
      this.filled += 1;
      if (this.filled === PACKET) this._send();
    }

    _send() {
      const level = Math.sqrt(this.energy / PACKET);
      this.port.postMessage({ sound: this.packet.buffer, level }, [this.packet.buffer]);
      this.packet = new Int16Array(PACKET);
      this.filled = this.energy = 0;
    }
  }

  registerProcessor("personaplex-ear", Ear);
  registerProcessor("personaplex-mouth", Mouth);
}
