// Sound that waits to be played, with the cuts that cannot be heard: out of silence, or where two places are alike. Pure.
//
// In and out: mono Float32Array at 24 kHz; places are samples from the buffer's own beginning.
// Must not know: how much should wait, worklets, ports, the page.
"use strict";
{
  const MS = 24;
  const QUIET_RMS = 0.004;
  const BLOCK = 5 * MS; // silence is looked for in blocks of this
  const SPLICE = 10 * MS; // a crossfade's length
  const LIKENESS = 80 * MS; // how much of the newest sound is searched for places that are alike
  const FARTHEST = 20 * MS;

  const rms = (pcm) => Math.sqrt(pcm.reduce((sum, x) => sum + x * x, 0) / Math.max(1, pcm.length));

  class WaitingSound {
    constructor(capacity) {
      this.sound = new Float32Array(capacity);
      this.head = 0; // the next sample to play
      this.end = 0;
    }

    get length() {
      return this.end - this.head;
    }

    get loud() {
      return rms(this.sound.subarray(this.head, this.end)) >= QUIET_RMS;
    }

    add(pcm) {
      if (this.end + pcm.length > this.sound.length) this._moveToFront();
      this.sound.set(pcm, this.end);
      this.end += pcm.length;
    }

    next() {
      this.head += 1;
      return this.sound[this.head - 1];
    }

    // Drops so many samples, the oldest; 10 ms must be left.
    dropOldest(samples) {
      this._splice(this.head, this.head + samples);
    }

    // Cuts quiet places shorter, the oldest first, by at most so many samples; returns how many.
    shortenSilence(most) {
      let cut = 0;
      for (let quiet = this._quietAfter(this.head); quiet && cut < most; quiet = this._quietAfter(quiet.after)) {
        const here = Math.min(most - cut, quiet.after - quiet.at - SPLICE);
        if (here <= 0) continue;
        this._splice(quiet.at, quiet.at + here);
        quiet.after -= here;
        cut += here;
      }
      return cut;
    }

    // Plays a part of the first quiet place twice, at most so many samples; returns how many.
    lengthenSilence(most) {
      this._moveToFront();
      for (let quiet = this._quietAfter(this.head); quiet; quiet = this._quietAfter(quiet.after)) {
        const here = Math.min(most, quiet.after - quiet.at - SPLICE);
        if (here <= 0) continue;
        this._splice(quiet.at + here, quiet.at);
        return here;
      }
      return 0;
    }

    // Jumps ahead, or back, by 10 to 20 ms where that keeps a voice's pitch; returns how many samples.
    shortenSpeech() {
      const { early, late } = this._alike();
      this._splice(early, late);
      return late - early;
    }

    lengthenSpeech() {
      this._moveToFront();
      const { early, late } = this._alike();
      this._splice(late, early);
      return late - early;
    }

    _moveToFront() {
      this.sound.copyWithin(0, this.head, this.end);
      this.end -= this.head;
      this.head = 0;
    }

    _quietAfter(from) {
      const loud = (place) => rms(this.sound.subarray(place, place + BLOCK)) >= QUIET_RMS;
      let at = from;
      while (at + BLOCK <= this.end && loud(at)) at += BLOCK;
      let after = at;
      while (after + BLOCK <= this.end && !loud(after)) after += BLOCK;
      return after > at ? { at, after } : null;
    }

    _alike() {
      const best = { early: this.head, late: this.head, apart: Infinity };
      const from = Math.max(this.head, this.end - LIKENESS);
      for (let early = from; early + FARTHEST + SPLICE <= this.end; early += SPLICE) {
        for (let late = early + SPLICE; late <= early + FARTHEST; late += 2) {
          const apart = this._apart(early, late);
          if (apart < best.apart) Object.assign(best, { early, late, apart });
        }
      }
      return best;
    }

    _apart(first, second) {
      let sum = 0;
      for (let k = 0; k < SPLICE; k += 3) sum += (this.sound[first + k] - this.sound[second + k]) ** 2;
      return sum;
    }

    // From one place straight on to another, ahead or back, with a crossfade.
    _splice(leave, land) {
      const faded = new Float32Array(SPLICE);
      for (let k = 0; k < SPLICE; k += 1) {
        const ramp = k / SPLICE;
        faded[k] = this.sound[leave + k] * (1 - ramp) + this.sound[land + k] * ramp;
      }
      this.sound.copyWithin(leave + SPLICE, land + SPLICE, this.end);
      this.sound.set(faded, leave);
      this.end += leave - land;
    }
  }

  globalThis.personaplexWaitingSound = WaitingSound;
}
