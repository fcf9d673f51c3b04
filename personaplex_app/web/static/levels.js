// How loud the visitor and the persona are just now, on both ways of the sound, and what words say so.
//
// In: a Call. Out: {you, persona}, each an rms from 0 to 1. WebRTC: an analyser on the sent track and one on the received;
// the socket: the report of its sound. Must not know: bars, buttons.

const STALE_MS = 600; // after which a report says nothing any more
const QUIETEST_DB = -55;
const LOUDEST_DB = -6;
const SPEECH_DB = -42;
const HOLD_MS = 450; // between two words somebody still speaks

const decibels = (rms) => 20 * Math.log10(Math.max(rms, 1e-6));

// A share of the bar, 0 to 1.
export const shareOf = (rms) => Math.max(0, Math.min(1, (decibels(rms) - QUIETEST_DB) / (LOUDEST_DB - QUIETEST_DB)));

// Whether somebody speaks, told by levels one after another.
export class Speaks {
  constructor() {
    this.until = 0;
  }

  saw(rms, now) {
    if (decibels(rms) > SPEECH_DB) this.until = now + HOLD_MS;
    return now < this.until;
  }
}

export class Levels {
  constructor(call) {
    this.call = call;
    this.context = null;
    this.ears = null; // {tracks, said, heard}
  }

  now() {
    const report = this.call.path === "socket" ? this.call.report : null;
    if (report) {
      this.rest();
      const fresh = performance.now() - report.at < STALE_MS;
      return fresh ? { you: report.microphone_level, persona: report.level } : { you: 0, persona: 0 };
    }
    this.follow(this.call.rtc.tracks());
    return this.ears ? { you: rms(this.ears.said), persona: rms(this.ears.heard) } : { you: 0, persona: 0 };
  }

  // Listens to these tracks from now on.
  follow(tracks) {
    if (tracks && this.ears && tracks.said === this.ears.tracks.said && tracks.heard === this.ears.tracks.heard) return;
    if (!tracks) return this.rest();
    this.rest();
    this.context ??= new AudioContext();
    this.context.resume().catch(() => {});
    this.ears = { tracks, said: this.ear(tracks.said), heard: this.ear(tracks.heard) };
  }

  ear(track) {
    const analyser = this.context.createAnalyser();
    analyser.fftSize = 4096; // 85 ms at 48 kHz: what passes between two looks
    const source = this.context.createMediaStreamSource(new MediaStream([track]));
    source.connect(analyser);
    return { analyser, source, samples: new Float32Array(analyser.fftSize) };
  }

  rest() {
    for (const ear of this.ears ? [this.ears.said, this.ears.heard] : []) ear.source.disconnect();
    this.ears = null;
  }

  // Gives the audio context back; the next talk makes another.
  async close() {
    this.rest();
    const context = this.context;
    this.context = null;
    await context?.close();
  }
}

function rms({ analyser, samples }) {
  analyser.getFloatTimeDomainData(samples);
  return Math.sqrt(samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length);
}
