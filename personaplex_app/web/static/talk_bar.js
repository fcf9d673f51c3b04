// The talk's bar: who speaks, mute, start over, the time, the window; joins the parts that begin with the page.
//
// In: the Call, its events. Out: words and bars. Must not know: how sound travels.

import { Gauge } from "./gauge.js";
import { t } from "./i18n.js";
import { Levels, Speaks, shareOf } from "./levels.js";
import { isMuted } from "./microphone.js";
import "./copy_settings.js";
import "./microphone_wishes.js";
import "./notice.js";
import "./presets.js";
import "./seed_lock.js";
import { part, write } from "./parts.js";
import { TalkClock } from "./talk_clock.js";

const LOOK_MS = 100;
const TOLD_MS = 1000; // what screen readers are told changes no more often
const TYPED_IN = "input, textarea, select, [contenteditable='true']";

class TalkBar {
  constructor() {
    this.levels = new Levels(call);
    this.clock = new TalkClock();
    this.gauge = new Gauge();
    this.speaks = { you: new Speaks(), persona: new Speaks() };
    this.toldAt = { you: 0, persona: 0 };
    this.looking = null;
    this.talked = false;
  }

  // The bar is there from the first word to the end, and while a lost talk comes back.
  become(state) {
    const talks = state === "talking" || (state === "busy" && Boolean(call.grant));
    document.documentElement.dataset.talk = state === "idle" ? "idle" : talks ? "talking" : "coming";
    part("talk-bar").hidden = !talks;
    this.showAfter(state);
    if (state !== "talking") this.clock.stop(performance.now());
    if (state === "idle") this.rest();
    else this.looking ??= setInterval(() => this.look(), LOOK_MS);
  }

  // After a talk its words leave the dock and stand with what is kept and the X-ray, until the next one begins.
  showAfter(state) {
    const after = state === "idle" && (this.talked || "after" in document.documentElement.dataset);
    document.documentElement.toggleAttribute("data-after", after);
    this.talked = state !== "idle" && (this.talked || state === "talking");
    const [dock, words] = [part("dock"), part("words")];
    if (after !== (words.parentElement !== dock)) after ? dock.after(words) : dock.append(words);
  }

  take(message) {
    if (message.type === "started_over") this.clock.reset();
    if (message.type !== "talk" || call.state === "idle") return;
    this.clock.take(message, performance.now());
    this.gauge.take(message.window ?? null, this.clock);
    this.showTime();
  }

  look() {
    const now = performance.now();
    const levels = call.state === "talking" ? this.levels.now() : { you: 0, persona: 0 };
    document.dispatchEvent(new CustomEvent("personaplex-levels", { detail: levels }));
    for (const [who, rms] of Object.entries(levels)) this.show(who, rms, now);
    this.showTime();
  }

  show(who, rms, now) {
    const speaks = this.speaks[who].saw(rms, now);
    const meter = part(`${who}-meter`);
    meter.firstElementChild.style.transform = `scaleX(${shareOf(rms).toFixed(2)})`;
    meter.dataset.speaks = speaks;
    write(part(`${who}-says`), says(who, speaks));
    const words = sentence(who, speaks);
    if (now - this.toldAt[who] < TOLD_MS) return;
    this.toldAt[who] = now;
    meter.setAttribute("aria-valuenow", Math.round(100 * shareOf(rms)));
    if (meter.getAttribute("aria-valuetext") !== words) meter.setAttribute("aria-valuetext", words);
  }

  showTime() {
    write(part("talk-time"), this.clock.words(performance.now()));
    this.gauge.show(performance.now());
  }

  showMute(muted) {
    const button = part("mute-button");
    button.setAttribute("aria-pressed", muted);
    write(button, muted ? t("Unmute") : t("Mute"));
    this.toldAt.you = -Infinity;
    this.look();
  }

  rest() {
    clearInterval(this.looking);
    this.looking = null;
    this.levels.close();
    this.clock.reset();
    this.gauge.take(null, this.clock);
  }
}

function says(who, speaks) {
  if (who === "you" && isMuted()) return t("muted");
  return speaks ? t("speaking") : t("quiet");
}

function sentence(who, speaks) {
  if (who === "you" && isMuted()) return t("You are muted");
  if (who === "you") return speaks ? t("You speak") : t("You are quiet");
  return speaks ? t("The persona speaks") : t("The persona is quiet");
}

function mutes({ key, target, repeat, altKey, ctrlKey, metaKey }) {
  const plain = !repeat && !altKey && !ctrlKey && !metaKey;
  return plain && key.toLowerCase() === "m" && !target.closest?.(TYPED_IN) && !part("talk-bar")?.hidden;
}

// Gradio puts the page's parts on it late.
while (!window.personaplex || !part("talk-bar")) await new Promise((resolve) => setTimeout(resolve, 50));
const call = window.personaplex;
const bar = new TalkBar();
document.addEventListener("personaplex-state", ({ detail }) => bar.become(detail));
document.addEventListener("personaplex-message", ({ detail }) => bar.take(detail));
document.addEventListener("personaplex-mute", ({ detail }) => bar.showMute(detail));
document.addEventListener("keydown", (event) => mutes(event) && call.mute(!isMuted()));
const title = new MutationObserver(() => write(part("dock-title"), part("about-title").textContent));
title.observe(part("about-title"), { childList: true, characterData: true, subtree: true });
part("skip").onclick = () => part("talk-button").focus();
part("mute-button").onclick = () => call.mute(!isMuted());
part("start-over-button").onclick = () => call.startOver();
bar.become(call.state);
