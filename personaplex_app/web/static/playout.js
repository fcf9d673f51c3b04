// What is played of the frames that come: a bounded buffer that stays near an adaptive prebuffer. Pure.
//
// In: mono Float32Array frames at 24 kHz, whenever they come. Out: as many samples as are asked for, counted.
// Must not know: worklets, ports, the page, clocks: time is what has been played. Needs waiting_sound.js before it.
//
// The prebuffer says how much should at least be left when a frame comes: 20 ms at first, 20 more when a gap tore
// speech, 20 less after ten seconds in which as much was always left. Silence is cut or stretched towards it, and that
// takes up the drift between two clocks too; speech only where there was no silence for seconds, or far too much waits.
// Above a bound all that waits is cut back at once, silence first, then the oldest.
"use strict";
{
  const MS = 24; // samples
  const FRAME = 80 * MS;
  const PACKET = 20 * MS;
  const LEAST_PREBUFFER = 20 * MS;
  const MOST_PREBUFFER = 120 * MS;
  const MOST_WAITING = 160 * MS; // before a frame that comes
  const SILENCE_LEEWAY = 10 * MS;
  const SPEECH_LEEWAY = 20 * MS;
  const BURST = 40 * MS; // so much more needs to stand for a second only
  const STANDING_FRAMES = 12; // a second
  const SILENCE_FRAMES = 25;
  const REMEMBERED_FRAMES = 62; // five seconds, and speech is cut for less than a burst
  const CALM = 10_000 * MS;
  const GAP_FADE = 5 * MS;
  const CAPACITY = 3_000 * MS;

  class Playout {
    constructor() {
      this.sound = new globalThis.personaplexWaitingSound(CAPACITY);
      this.holding = 0; // samples of silence before it
      this.gain = 0;
      this.started = false;
      this.ending = false; // fading out, since nothing follows
      this.prebuffer = LEAST_PREBUFFER;
      this.waits = []; // what was left when each of the last frames came
      this.calm = 0;
      this.energy = 0;
      this.heard = 0;
      this.counted = { played: 0, filled: 0, torn: 0, held: 0, shed: 0, added: 0, dropped: 0 };
    }

    get waiting() {
      return this.holding + this.sound.length;
    }

    // Adds a frame, Float32Array of at most 80 ms; longer ones in parts.
    push(pcm) {
      for (let at = 0; at < pcm.length; at += FRAME) this._take(pcm.subarray(at, at + FRAME));
    }

    _take(frame) {
      if (this.sound.length === 0) this._begin();
      this.ending = false;
      this._note(this.waiting, frame.length);
      this.sound.add(frame);
      this._steer();
    }

    // The first frame waits for as long as the prebuffer says, one after a gap for the least.
    _begin() {
      this.holding = this.started ? LEAST_PREBUFFER : this.prebuffer;
      this.started = true;
      this.gain = 0;
    }

    _note(wait, length) {
      this.waits.push(wait);
      if (this.waits.length > REMEMBERED_FRAMES) this.waits.shift();
      this.calm = wait < PACKET ? 0 : this.calm + length;
      if (this.calm < CALM) return;
      this.calm = 0;
      this.prebuffer = Math.max(LEAST_PREBUFFER, this.prebuffer - PACKET);
    }

    _steer() {
      if (this.waiting > MOST_WAITING + FRAME) {
        this._cutBack(this.waiting - this.prebuffer - FRAME);
        return;
      }
      const lately = this._leastOf(STANDING_FRAMES) - BURST - this.prebuffer;
      this._steerSilence(lately);
      if (this.waits.length >= STANDING_FRAMES) this._steerSpeech(lately);
    }

    _steerSilence(lately) {
      const least = this._leastOf(SILENCE_FRAMES) - this.prebuffer;
      const excess = Math.max(least, lately);
      if (excess > SILENCE_LEEWAY) this._shift("shed", -this.sound.shortenSilence(excess));
      else if (least < -SILENCE_LEEWAY && this.waits.at(-1) < this.prebuffer)
        this._shift("added", this.sound.lengthenSilence(Math.min(-least, MOST_WAITING - this.waits.at(-1))));
    }

    _steerSpeech(lately) {
      const most = Math.max(...this.waits.slice(-STANDING_FRAMES)) - this.prebuffer;
      const excess = Math.max(this._leastOf(REMEMBERED_FRAMES) - this.prebuffer, lately);
      if (excess > SPEECH_LEEWAY) this._shift("dropped", -this.sound.shortenSpeech());
      else if (most < -SPEECH_LEEWAY) this._shift("added", this.sound.lengthenSpeech());
    }

    // What was left when the last frames came, at the worst.
    _leastOf(frames) {
      return Math.min(...this.waits.slice(-frames));
    }

    // Too much by far: silence goes first, then the oldest.
    _cutBack(most) {
      const held = Math.min(this.holding, most);
      this.holding -= held;
      const silent = this.sound.shortenSilence(most - held);
      this._shift("held", -held);
      this._shift("shed", -silent);
      if (this.waiting <= MOST_WAITING + FRAME) return;
      this.sound.dropOldest(most - held - silent);
      this._shift("dropped", held + silent - most);
    }

    // So many samples more or less wait now; had they before, the frames would have found it so.
    _shift(kind, by) {
      this.counted[kind] += Math.abs(by);
      this.waits = this.waits.map((wait) => Math.max(0, wait + by));
    }

    // Fills `out`, Float32Array, with the next samples.
    pull(out) {
      for (let k = 0; k < out.length; k += 1) {
        out[k] = this.holding > 0 || this.sound.length === 0 ? this._silence() : this._next();
        this.energy += out[k] * out[k];
      }
      this.heard += out.length;
    }

    _silence() {
      if (this.holding > 0) this.holding -= 1;
      if (this.started) this.counted.filled += 1;
      return 0;
    }

    _next() {
      if (this.sound.length <= GAP_FADE && !this.ending) this._runOut();
      this.gain = Math.min(1, Math.max(0, this.gain + (this.ending ? -1 : 1) / GAP_FADE));
      this.counted.played += 1;
      return this.sound.next() * this.gain;
    }

    _runOut() {
      this.ending = true;
      if (!this.sound.loud) return;
      this.counted.torn += 1;
      this.calm = 0;
      this.prebuffer = Math.min(MOST_PREBUFFER, this.prebuffer + PACKET);
    }

    // What was done so far. `played` and `filled` count packets of 20 ms, `torn` gaps within speech; shed and added is
    // silence, dropped is speech; `level` is the loudness (rms) since the last report.
    report() {
      const { played, filled, torn, shed, added, dropped } = this.counted;
      const level = Math.sqrt(this.energy / Math.max(1, this.heard));
      this.energy = this.heard = 0;
      return {
        played: Math.floor(played / PACKET),
        filled: Math.floor(filled / PACKET),
        torn,
        shed_ms: shed / MS,
        added_ms: added / MS,
        dropped_ms: dropped / MS,
        prebuffer_ms: this.prebuffer / MS,
        waiting_ms: this.waiting / MS,
        level,
      };
    }
  }

  globalThis.personaplexPlayout = Playout;
}
