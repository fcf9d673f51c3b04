// How much of the model's window the talk has used, what is left, and what is forgotten once nothing is.
//
// In: `window` of the `talk` messages (docs/protocol.md), the talk's clock. Out: a bar and words; null hides them.
// A window slides where `kept` is null: each frame pushes the oldest one out, and the oldest of all is the prompt's.
// Else the model reads its prompt and the last `kept` frames anew before the window is full.
// Must not know: sockets, meters.

import { t } from "./i18n.js";
import { part, write } from "./parts.js";
import { timeWords } from "./talk_clock.js";

const FRAME_SECONDS = 0.08;
const TOLD_MS = 1000;

export class Gauge {
  constructor() {
    this.window = null;
    this.toldAt = -Infinity;
  }

  take(window, clock) {
    this.window = window;
    this.clock = clock;
    this.takenAt = clock.seconds;
    this.toldAt = -Infinity;
    part("gauge").hidden = !window;
  }

  // Positions used by now, as far as the clock goes on from what was told.
  used(now) {
    return this.window.used + Math.max(0, this.clock.at(now) - this.takenAt) / FRAME_SECONDS;
  }

  show(now) {
    if (!this.window || now - this.toldAt < TOLD_MS) return;
    this.toldAt = now;
    const told = tell(this.window, this.used(now));
    const bar = part("gauge-bar");
    bar.querySelector(".prompt").style.width = percent(told.prompt);
    bar.querySelector(".talk").style.width = percent(told.talk);
    bar.setAttribute("aria-valuenow", Math.round(100 * (told.prompt + told.talk)));
    bar.setAttribute("aria-valuetext", [told.left, told.words].filter(Boolean).join(". "));
    part("gauge").dataset.full = told.full;
    write(part("gauge-left"), told.left);
    write(part("gauge-words"), told.words);
  }
}

const percent = (share) => `${(100 * Math.max(0, share)).toFixed(1)}%`;
const secondsOf = (positions) => Math.round(positions * FRAME_SECONDS);

// Shares of the bar and words, for so many positions used. Pure.
export function tell({ positions, prompt, kept, renewals }, used) {
  const gone = Math.max(0, used - positions); // pushed out, the prompt's first
  const held = Math.max(0, prompt - gone);
  const shares = { prompt: held / positions, talk: (Math.min(used, positions) - held) / positions, full: gone > 0 };
  const left = t("{time} left", { time: timeWords((positions - used) * FRAME_SECONDS) });
  if (kept !== null) return { ...shares, left, words: renewing(prompt, kept, renewals, used) };
  if (gone > 0) return { ...shares, left: t("full"), words: forgetting(positions, prompt, held) };
  const at = timeWords((positions - prompt) * FRAME_SECONDS);
  const values = { all: secondsOf(positions), prompt: secondsOf(prompt), at };
  return { ...shares, left, words: t("{all} s, {prompt} s of them the prompt's. Full at {at}: then the oldest is forgotten, the prompt first.", values) };
}

function forgetting(positions, prompt, held) {
  const all = secondsOf(positions);
  if (held > 0) return t("The persona now forgets the oldest seconds: its prompt goes first, {left} s of it are left.", { left: secondsOf(held) });
  if (prompt > 0) return t("The persona remembers the last {all} s, and its prompt no more.", { all });
  return t("The persona remembers the last {all} s.", { all });
}

function renewing(prompt, kept, renewals, used) {
  if (!renewals) return t("By then it reads its prompt and the last {kept} s anew, and forgets the rest.", { kept: secondsOf(kept) });
  const values = { times: renewals, seconds: secondsOf(used - prompt) };
  return t("Read anew, {times} so far: the persona remembers its prompt and the last {seconds} s.", values);
}
