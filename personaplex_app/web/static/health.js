// The health strip: one sentence on how the talk fares and whose fault it is if not well, and the figures behind it.
//
// In: the Call, its events; the server's `health` messages. Out: words in #health while a talk runs. Screen readers are told
// of the verdict's changes alone. Must not know: thresholds (verdict.js), how a look is taken (sample.js).

import { Window, figuresOf } from "./figures.js";
import { t } from "./i18n.js";
import { part, write } from "./parts.js";
import { sampleOf } from "./sample.js";
import { FRAME_MS, Verdicts } from "./verdict.js";

const LOOK_MS = 1000;
const LEAST_MS = 3000; // of samples, before anything is said
const MARKS = { well: "✓", gpu: "!", network: "!", browser: "!" };
const PRECISIONS = { int8: t("8-bit weights"), int4: t("4-bit weights") };

const SENTENCES = {
  well: () => t("All is well."),
  slow: ({ ms }) => ({
    gpu: t("This GPU is slower than real time: {ms} ms a frame.", { ms }),
    cpu: t("This server's CPU is slower than real time: {ms} ms a frame.", { ms }),
    "": t("This server is slower than real time: {ms} ms a frame.", { ms }),
  })[place()],
  behind: ({ ms }) => ({
    gpu: t("This GPU does not keep up: about {ms} ms a frame, and at times far more.", { ms }),
    cpu: t("This server's CPU does not keep up: about {ms} ms a frame, and at times far more.", { ms }),
    "": t("This server does not keep up: about {ms} ms a frame, and at times far more.", { ms }),
  })[place()],
  stalled: () => t("The model has not answered for a moment. Your network is not to blame."),
  loss: ({ percent }) => t("Your network loses {percent} % of the sound.", { percent }),
  unsent: ({ ms }) => t("Your network is too narrow: {ms} ms of what you said wait to be sent.", { ms }),
  round_trip: ({ ms }) => t("Your network is slow: there and back takes {ms} ms.", { ms }),
  unheard: () => t("Your network brings what you say unevenly: parts of it come too late."),
  gaps: ({ percent }) => t("Your network brings the persona's sound unevenly: {percent} % came too late.", { percent }),
  silent: ({ seconds }) => t("Nothing has come from the server for {seconds} s: your network, or the server itself.", { seconds }),
  given: ({ percent }) => t("Your browser gives only {percent} % of the microphone's sound: this device is too busy.", { percent }),
  held: () => t("Your browser was held up for a moment: this device is too busy."),
  asleep: () => t("Your browser has put the sound to sleep. Click on the page."),
  microphone_muted: () => t("Your microphone gives no sound: it is switched off, on itself or in the system."),
  microphone_ended: () => t("Your microphone is gone. Connect it and press Talk again."),
};

class Health {
  constructor() {
    this.model = null; // once the server has said what runs
    this.rest();
  }

  rest() {
    clearInterval(this.looking);
    this.looking = null;
    this.window = new Window();
    this.verdicts = new Verdicts();
    this.told = { health: null, told_at: 0, message_at: performance.now() };
    this.spoken = "";
  }

  become(state) {
    const talks = state === "talking";
    if (talks && !this.looking) this.begin();
    if (!talks && this.looking) this.rest();
    part("health").hidden = !talks;
    if (!talks) write(part("health-told"), "");
  }

  begin() {
    this.rest();
    this.show(null);
    this.looking = setInterval(() => this.look(), LOOK_MS);
    if (!this.model) this.ask();
  }

  take(message) {
    const now = performance.now();
    this.told.message_at = now;
    if (message.type === "health") this.told = { health: message, told_at: now, message_at: now };
    if (message.type === "started_over") this.window = new Window();
  }

  async look() {
    if (!this.told.health) return;
    const looking = this.looking;
    const sample = await sampleOf(call, this.told);
    if (looking !== this.looking) return; // the talk ended meanwhile
    this.window.add(sample);
    if (this.window.long < LEAST_MS) return;
    const figures = { ...figuresOf(this.window.samples), held_ms: this.window.heldMs };
    this.show(this.verdicts.saw(figures));
    this.fill(figures);
  }

  show(verdict) {
    const strip = part("health");
    strip.dataset.who = verdict?.who ?? "";
    strip.dataset.what = verdict?.what ?? "";
    write(part("health-mark"), MARKS[verdict?.who] ?? "…");
    const sentence = verdict ? SENTENCES[verdict.what](verdict) : t("Looking at the line ...");
    write(part("health-verdict"), sentence);
    if (!verdict || verdict.what === this.spoken) return;
    // Numbers move without a word; and that all is well is news only after it was not.
    if (verdict.who !== "well" || this.spoken) write(part("health-told"), sentence);
    this.spoken = verdict.what;
  }

  fill(figures) {
    write(part("health-model"), this.model ? modelWords(this.model) : "");
    write(part("health-step"), t("{ms} ms of {budget}", { ms: rounded(figures.step_ms), budget: FRAME_MS }));
    write(part("health-queue"), queueWords(figures));
    write(part("health-dropped"), droppedWords(figures));
    write(part("health-round-trip"), figures.round_trip_ms === null ? t("not known") : t("{ms} ms", { ms: Math.round(figures.round_trip_ms) }));
    write(part("health-lost"), lostWords(figures));
  }

  async ask() {
    try {
      const answer = await fetch(new URL("talk/lines", document.baseURI), { cache: "no-store" });
      this.model = (await answer.json()).model ?? null;
    } catch {
      this.model = null; // asked again with the next talk
    }
  }
}

function place() {
  const where = health.model?.where ?? "";
  return where === "" ? "" : where === "CPU" ? "cpu" : "gpu";
}

function modelWords({ name, precision, past, where }) {
  const words = [name, PRECISIONS[precision] ?? precision, past === "int8" ? t("8-bit past") : "", where];
  return words.filter(Boolean).join(", ");
}

function queueWords({ heard_ms, spoken_ms, player_ms, queue_ms }) {
  const [heard, spoken, player, all] = [heard_ms, spoken_ms, player_ms ?? 0, queue_ms].map(Math.round);
  return t("{all} ms: yours {heard}, the persona's {spoken}, in your browser {player}", { all, heard, spoken, player });
}

function droppedWords({ dropped, missed, late_ms }) {
  const counts = { dropped: dropped ?? 0, late: missed ?? 0, ms: Math.round(late_ms ?? 0) };
  return t("{dropped} frames dropped, {late} late, {ms} ms of gaps in the last 6 s", counts);
}

function lostWords({ path, lost_up, lost_down, jitter_ms }) {
  if (path === "socket") return t("nothing: the socket sends again what was lost");
  const [up, down] = [lost_up, lost_down].map((share) => Math.round(1000 * (share ?? 0)) / 10);
  return t("{up} % of yours, {down} % of the persona's; jitter {ms} ms", { up, down, ms: Math.round(jitter_ms ?? 0) });
}

const rounded = (ms) => (ms < 10 ? Math.round(10 * ms) / 10 : Math.round(ms));

// Gradio puts the page's parts on it late.
while (!window.personaplex || !part("health")) await new Promise((resolve) => setTimeout(resolve, 50));
const call = window.personaplex;
const health = new Health();
document.addEventListener("personaplex-message", ({ detail }) => health.take(detail));
document.addEventListener("personaplex-state", ({ detail }) => health.become(detail));
health.become(call.state);
