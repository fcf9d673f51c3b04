// The call as the page lives it: one button, the socket, and the path that the sound takes. docs/protocol.md tells the
// messages. In: presses and the boxes' values (from gradio's events). Out: words on the page.

import { t, translated } from "./i18n.js";
import { Line } from "./line.js";
import * as microphone from "./microphone.js";
import { RtcPath } from "./rtc_path.js";
import { lockedSeed } from "./seed_lock.js";
import { SoundWatch } from "./sound_watch.js";
import { Transcript } from "./turns.js";
import { BUTTONS, PATHS, WORDS, ended, microphoneWords } from "./words.js";

const config = window.personaplexConfig;
const base = new URL("talk/", document.baseURI).href;
const CONNECT_MS = 8000;
const RESUME_MS = 25000;
const LINES_MS = 2000;
const PATH_MS = 1000;
const SETTLE_MS = 400;
const LAST_WORDS_MS = 1000;

const element = (id) => document.getElementById(id);

class Call {
  constructor() {
    this.state = "idle"; // idle, busy, waiting, turn, talking
    this.values = {};
    this.line = new Line({
      base,
      onMessage: (message) => this.take(message),
      onSound: (bytes) => this.sound && this.sound.play(bytes),
      onGone: () => this.gone(),
    });
    this.rtc = new RtcPath({ onFailed: () => this.rtcFailed() });
    this.sound = null;
    this.report = null; // of the socket's sound, a fifth of a second old at most
    this.grant = "";
    this.lostAt = 0;
    this.lastWords = "";
    this.transcript = new Transcript();
    this.path = "";
    this.closing = null;
    this.warnings = {};
    this.guards = 0; // how many of the loop guard's messages were taken
    this.attempt = 0; // of connecting; what belongs to an older one is stale
    this.watch = new SoundWatch(this);
  }

  // The button.

  async press() {
    if (this.state === "idle") return this.begin();
    if (this.state === "turn") return this.answer();
    return this.stop();
  }

  async begin() {
    clearTimeout(this.closing);
    this.closing = null;
    this.line.close();
    this.become("busy");
    this.say(WORDS.connecting);
    this.transcript.clear();
    element("applied").textContent = "";
    const problem = await microphoneProblem();
    if (problem) return this.finish(problem);
    if (this.state !== "busy") return;
    try {
      await this.line.open();
      this.guards = 0;
      this.line.send({ type: "ask", choices: this.choices() });
    } catch {
      this.finish(WORDS.unreachable);
    }
  }

  answer() {
    this.become("busy");
    this.say(WORDS.connecting);
    this.line.send({ type: "answer" });
  }

  stop() {
    const talked = this.state === "talking" || this.grant;
    this.end(talked ? ended("You ended the talk.") : this.state === "waiting" ? WORDS.left : WORDS.cancelled);
  }

  end(sentence) {
    const line = this.line;
    line.send({ type: "stop" });
    this.finish(sentence, true);
    this.closing = setTimeout(() => line.close(), LAST_WORDS_MS);
  }

  // Begins the talk anew with what the boxes hold; the connection stays.
  startOver() {
    if (this.state !== "talking") return;
    this.say(t("Starting over ..."));
    this.line.send({ type: "start_over", choices: this.choices() });
  }

  // The boxes.

  choose(values) {
    this.values = Object.fromEntries(config.fields.map((name, index) => [name, values[index]]));
    this.set();
    document.dispatchEvent(new Event("personaplex-values"));
  }

  choices() {
    const seed = this.values.seed || lockedSeed();
    return { ...this.values, seed, loop_guard: element("loop-guard").checked };
  }

  set() {
    if (["waiting", "turn", "talking"].includes(this.state)) this.line.send({ type: "set", choices: this.choices() });
  }

  async useSocket() {
    const wanted = element("use-socket").checked && this.state === "talking" && this.path === "webrtc";
    if (wanted) await this.startSocket(); // the other path is stopped once the server says that the sound has moved
  }

  // The server's messages.

  take(message) {
    announce("message", message);
    const tell = {
      waiting: () => { this.lostAt = 0; this.become("waiting"); this.say(message.sentence); },
      turn: () => { this.become("turn"); this.say(message.sentence); },
      admitted: () => this.connect(message),
      talk: () => this.takeTalk(message),
      started_over: () => this.begunAnew(message.sentence),
      said: () => this.transcript.said(message),
      warning: () => this.warn({ ...this.warnings, [message.code]: message.sentence }),
      guard: () => this.takeGuard(message),
      echo: () => this.transcript.remark({ ...message, number: `echo ${message.number}` }),
      refused: () => this.refused(message),
      lost: () => { this.grant = message.grant; this.comeBack(); },
      ended: () => this.finish(ended(message.sentence)),
    }[message.type];
    if (tell && this.state !== "idle") tell();
    else if (message.type === "said" && this.closing) tell(); // what was said just before the stop
    else if (message.type === "ended") this.line.close();
  }

  takeTalk(message) {
    clearTimeout(this.late);
    this.lostAt = 0;
    this.grant = message.grant;
    this.path = message.path;
    this.become("talking");
    this.say(message.sentence);
    element("applied").textContent = translated(message.applied);
    if (message.path === "socket") this.rtc.stop();
  }

  begunAnew(sentence) {
    this.guards = 0;
    this.transcript.clear();
    this.warn({ ...this.warnings, loop: "", idle: "" });
    this.say(sentence);
  }

  takeGuard(message) {
    this.transcript.remark(message);
    if (message.number < this.guards) return; // after a resume all of them come again
    this.guards = message.number + 1;
    this.warn({ ...this.warnings, loop: message.action === "put_back" ? "" : message.sentence });
  }

  refused(message) {
    const goesOn = message.code === "no_ticket" || (this.state === "busy" && message.code === "bad_message");
    if (this.state === "talking" || goesOn) this.say(message.sentence); // others were quicker: `waiting` follows
    else this.finish(message.sentence);
  }

  // The path of the sound.

  async connect(message) {
    this.lostAt = 0;
    this.become("busy");
    const attempt = ++this.attempt;
    if (element("use-socket").checked || !window.RTCPeerConnection || this.path === "socket") return this.startSocket();
    this.late = setTimeout(() => attempt === this.attempt && this.fallBack(), CONNECT_MS);
    try {
      await this.rtc.start(message.ticket, message.ice_servers);
    } catch {
      if (attempt === this.attempt) this.fallBack();
    }
  }

  rtcFailed() {
    if (this.state === "busy") this.fallBack();
  }

  fallBack() {
    clearTimeout(this.late);
    if (this.state !== "busy") return;
    this.say(WORDS.moving);
    this.rtc.stop();
    this.startSocket();
  }

  async startSocket() {
    clearTimeout(this.late);
    const attempt = ++this.attempt;
    this.path = "socket";
    try {
      await import("./socket_sound.js"); // most calls never need it
      const sound = await window.personaplexSound.start({
        microphone: microphone.open,
        base: base + "static",
        send: (bytes) => this.line.sendSound(bytes),
        onReport: (report) => { this.report = { ...report, at: performance.now() }; },
      });
      if (attempt !== this.attempt || this.state === "idle") return sound.stop();
      this.stopSound();
      this.sound = sound;
      this.line.send({ type: "sound" });
    } catch (error) {
      if (attempt !== this.attempt) return;
      this.end(microphoneWords(error));
    }
  }

  stopSound() {
    if (this.sound) this.sound.stop();
    this.sound = null;
  }

  // Whether what is said is sent; it holds on both ways of the sound, and when the talk comes back on another.
  mute(on) {
    microphone.mute(on);
    announce("mute", on);
  }

  // It was unplugged, or another program took it: the talk goes on with another one, or is over.
  async microphoneGone() {
    if (this.state !== "talking") return;
    try {
      const stream = await microphone.open();
      if (this.path === "webrtc" && this.state === "talking") await this.rtc.send(stream);
      else microphone.close(stream);
    } catch {
      return this.end(WORDS.unplugged);
    }
    if (this.state !== "talking") return;
    if (this.path === "socket") await this.startSocket();
    this.watch.changed();
  }

  // A lost connection.

  gone() {
    if (this.state === "idle") return;
    if (this.grant) this.comeBack();
    else this.finish(WORDS.gone);
  }

  async comeBack() {
    if (this.returning) return;
    this.returning = true;
    this.lostAt = this.lostAt || Date.now();
    this.become("busy");
    this.warn({});
    this.say(WORDS.back);
    clearTimeout(this.late);
    this.attempt += 1;
    this.rtc.stop();
    this.stopSound();
    await this.knock();
    this.returning = false;
  }

  async knock() {
    for (let pause = 250; Date.now() - this.lostAt < RESUME_MS && this.state === "busy"; pause = Math.min(2 * pause, 2000)) {
      try {
        await this.line.open();
        return this.line.send({ type: "resume", grant: this.grant });
      } catch {
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    }
    if (this.state === "busy") this.finish(WORDS.gone);
  }

  // `listens`: the line stays open a moment for the last words.
  finish(sentence, listens = false) {
    clearTimeout(this.late);
    this.attempt += 1;
    this.grant = "";
    this.lostAt = 0;
    this.path = "";
    this.rtc.stop();
    this.stopSound();
    this.mute(false); // who talks anew is heard
    this.warn({});
    this.become("idle");
    if (!listens) this.line.close();
    this.lastWords = sentence;
    this.say(sentence);
    setTimeout(showLines, SETTLE_MS); // the slot is free again a moment later
  }

  // The page.

  become(state) {
    this.state = state;
    announce("state", state);
    const button = element("talk-button");
    button.textContent = BUTTONS[state];
    button.dataset.state = state;
  }

  warn(warnings) {
    this.warnings = warnings; // by what they warn of; an empty sentence takes one back
    element("warning").textContent = Object.values(warnings).filter(Boolean).map(translated).join("\n");
  }

  say(sentence) {
    element("status").textContent = translated(sentence); // the server's are English; our own stay as they are
  }

  async showPath() {
    const kind = this.path === "webrtc" ? await this.rtc.kind() : this.path;
    element("path").textContent = (this.state === "talking" && PATHS[kind]) || "";
  }
}

// For the page's other parts: "personaplex-message" (one of the server's), "personaplex-state" (idle, busy, ...).
function announce(kind, detail) {
  document.dispatchEvent(new CustomEvent(`personaplex-${kind}`, { detail }));
}

async function microphoneProblem() {
  if (!navigator.mediaDevices) return WORDS.insecure;
  try {
    microphone.close(await microphone.open());
    return "";
  } catch (error) {
    return microphoneWords(error);
  }
}

async function showLines() {
  if (call.state !== "idle" || document.hidden) return;
  try {
    const answer = await fetch(base + "lines", { cache: "no-store" });
    const told = await answer.json();
    const sentence = translated(told.sentence);
    element("network-notice").textContent = translated(told.notice);
    const last = call.lastWords && call.lastWords !== sentence ? `${call.lastWords}\n` : "";
    if (call.state === "idle") call.say(last + sentence);
  } catch {
    if (call.state === "idle") call.say(WORDS.unreachable);
  }
}

async function check() {
  const button = element("check-button");
  const { checkSetUp } = await import("./check.js");
  button.disabled = true;
  try {
    await checkSetUp({ base, show: (text) => { element("check").textContent = text; } });
  } finally {
    button.disabled = false;
  }
}

const call = (window.personaplex = new Call());
document.addEventListener("click", (event) => {
  if (event.target.closest("#talk-button")) call.press();
  if (event.target.closest("#check-button")) check();
  if (event.target.closest("#copy-transcript")) call.transcript.copy();
});
document.addEventListener("change", (event) => {
  if (event.target.id === "use-socket") call.useSocket();
  if (event.target.id === "loop-guard") call.set();
});
window.addEventListener("pagehide", () => call.line.send({ type: "stop" }));
if (window.personaplexWaiting) call.choose(window.personaplexWaiting);
setInterval(showLines, LINES_MS);
setInterval(() => element("path") && call.showPath(), PATH_MS);
