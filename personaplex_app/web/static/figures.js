// The figures of a talk's last seconds, from samples taken one after another. Pure.
//
// In: samples (sample.js), the oldest first, at least two; totals become what came between the first and the last. Out:
// figures, null where nobody knows. Must not know: peers, sockets, the page.

import { FRAME_MS, LIMITS } from "./verdict.js";

export const WINDOW_MS = 6000;
const BEHIND_MS = 2500; // so late what was told while the page stood still is read and counted

// Samples that belong together: of one way and one talk, and young enough.
export class Window {
  constructor() {
    this.samples = [];
    this.held = { ms: 0, at: -Infinity };
  }

  add(sample) {
    const last = this.samples.at(-1);
    if (last && sample.at - last.at > LIMITS.held_ms) this.held = { ms: sample.at - last.at, at: sample.at };
    if (last && (last.path !== sample.path || last.frames > sample.frames)) this.samples = [];
    this.samples.push(sample);
    while (sample.at - this.samples[0].at > WINDOW_MS) this.samples.shift();
  }

  // How long the page stood still, as long as any sample may bear the marks of it.
  get heldMs() {
    return this.samples.at(-1)?.at - this.held.at < WINDOW_MS + BEHIND_MS ? this.held.ms : 0;
  }

  get long() {
    return this.samples.length > 1 ? this.samples.at(-1).at - this.samples[0].at : 0;
  }
}

export function figuresOf(samples) {
  const [first, last] = [samples[0], samples.at(-1)];
  const since = (name) => (first[name] === null || last[name] === null ? null : Math.max(0, last[name] - first[name]));
  const ms = last.at - first.at;
  const [toldMs, frames] = [since("told_at"), since("frames")];
  const player = last.player_ms ?? share(since("buffered_ms"), since("buffer_left"));
  return {
    path: last.path,
    step_ms: last.step_ms,
    stalled: last.stalled,
    heard_ms: last.heard_ms,
    spoken_ms: last.spoken_ms,
    player_ms: player,
    queue_ms: sum(last.heard_ms, last.spoken_ms, player, last.unsent_ms),
    dropped: sum(since("dropped"), since("unsent")),
    overrun: share(since("dropped"), sum(frames, since("dropped"))),
    missed: since("missed"),
    late_ms: sum(since("late_ms"), since("gap_ms")),
    lost_up: share(since("up_lost"), since("up_sent")),
    lost_down: share(since("down_lost"), sum(since("down_lost"), since("down_received"))),
    jitter_ms: last.jitter_ms,
    round_trip_ms: median(samples.map((one) => one.round_trip_ms).filter((one) => one !== null)),
    unsent_ms: last.unsent_ms,
    given: share(since("given_ms"), ms),
    unheard: share(since("filled"), frames),
    made: toldMs > 0 ? (frames * FRAME_MS) / toldMs : null,
    gaps: share(since("gap_ms"), ms),
    silent_ms: last.silent_ms,
    microphone: last.microphone,
    awake: last.awake,
  };
}

function share(part, whole) {
  return part === null || !(whole > 0) ? null : part / whole;
}

function sum(...parts) {
  const known = parts.filter((part) => part !== null);
  return known.length ? known.reduce((all, part) => all + part, 0) : null;
}

function median(values) {
  return values.length ? [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] : null;
}
