// How long the talk has lasted: by the frames that the server counts where it begins or comes back, by the browser's
// own clock in between. It stands still while a talk is away, and begins anew where a talk does.
//
// In: `talk` messages, moments of performance.now(). Out: seconds, words. Must not know: the page.

const FRAME_SECONDS = 0.08;

export class TalkClock {
  constructor() {
    this.reset();
  }

  reset() {
    this.seconds = 0;
    this.since = null; // null: it stands
  }

  // A server that is slower than real time counts fewer frames than time goes by: that moves nothing back.
  take({ state, frames }, now) {
    this.seconds = Math.max(this.at(now), frames * FRAME_SECONDS);
    this.since = state === "talking" ? now : null;
  }

  stop(now) {
    this.seconds = this.at(now);
    this.since = null;
  }

  at(now) {
    return this.seconds + (this.since === null ? 0 : (now - this.since) / 1000);
  }

  words(now) {
    return timeWords(this.at(now));
  }
}

// 75 -> "1:15".
export function timeWords(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}
