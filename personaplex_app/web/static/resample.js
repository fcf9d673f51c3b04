// From one sample rate to another, piece after piece: a windowed sinc, one set of taps for each phase. Pure.
//
// In and out: mono Float32Array at the two rates. Aliases and images lie 80 dB down; the passband ends at about 80 % of
// the lower rate's half. Must not know: worklets, ports, the page.
"use strict";
{
  const ZERO_CROSSINGS = 24; // on each side, counted at the lower rate
  const KAISER_BETA = 7.86; // 80 dB
  const TRANSITION = 2.51; // half the transition band's width, in cycles over all taps

  const divisor = (a, b) => (b ? divisor(b, a % b) : a);

  function bessel(x) {
    let sum = 1;
    let term = 1;
    for (let k = 1; term > 1e-12 * sum; k += 1) sum += term *= (x / (2 * k)) ** 2;
    return sum;
  }

  function tapsOfPhase(shift, half, cutoff) {
    const taps = new Float32Array(2 * half);
    let sum = 0;
    for (let k = 0; k < taps.length; k += 1) {
      const at = k - half + 1 - shift;
      const sinc = at === 0 ? 1 : Math.sin(2 * Math.PI * cutoff * at) / (2 * Math.PI * cutoff * at);
      const inside = Math.max(0, 1 - (at / half) ** 2);
      taps[k] = sinc * bessel(KAISER_BETA * Math.sqrt(inside));
      sum += taps[k];
    }
    return taps.map((tap) => tap / sum);
  }

  class Resampler {
    constructor(fromHz, toHz) {
      const common = divisor(fromHz, toHz);
      this.up = toHz / common;
      this.down = fromHz / common;
      this.half = Math.ceil(ZERO_CROSSINGS * Math.max(1, fromHz / toHz));
      const cutoff = 0.5 * Math.min(1, toHz / fromHz) - TRANSITION / (2 * this.half);
      this.phases = Array.from({ length: this.up }, (_, phase) => tapsOfPhase(phase / this.up, this.half, cutoff));
      this.kept = new Float32Array(this.half - 1); // silence before the beginning
      this.phase = 0; // of the next sample to make, which stands at kept[0] plus half - 1, in 1/up
    }

    // Adds samples at the first rate; returns those of the second rate that have become due.
    push(pcm) {
      if (this.up === this.down) return pcm;
      const sound = new Float32Array(this.kept.length + pcm.length);
      sound.set(this.kept);
      sound.set(pcm, this.kept.length);
      const made = [];
      let at = 0;
      while (at + 2 * this.half <= sound.length) {
        made.push(this._sample(sound, at));
        this.phase += this.down;
        at += Math.floor(this.phase / this.up);
        this.phase %= this.up;
      }
      this.kept = sound.slice(at);
      return Float32Array.from(made);
    }

    _sample(sound, at) {
      const taps = this.phases[this.phase];
      let sum = 0;
      for (let k = 0; k < taps.length; k += 1) sum += taps[k] * sound[at + k];
      return sum;
    }
  }

  globalThis.personaplexResampler = Resampler;
}
