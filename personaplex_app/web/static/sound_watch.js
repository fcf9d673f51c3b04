// What goes wrong with the microphone and the loudspeaker while one talks, told with what can be done about it.
//
// In: levels ("personaplex-levels", from talk_bar.js), a microphone that is taken away ("personaplex-microphone-gone",
// from microphone.js). Out: warnings of the Call, each taken back once it is not true any more.
// Must not know: how sound travels, the server.

import { isMuted } from "./microphone.js";
import { WORDS } from "./words.js";

const SILENT = 1e-5; // -100 dB: the quietest room is louder, a microphone that is switched off is not
const SILENT_MS = 5000;
const TOLD_MS = 20_000;
const SIGNS = ["pointerdown", "keydown"];

export class SoundWatch {
  constructor(call) {
    this.call = call;
    this.heard = false; // anything from this talk's microphone
    this.since = null; // when it began to be silent
    document.addEventListener("personaplex-state", () => this.begin());
    document.addEventListener("personaplex-levels", ({ detail }) => this.look(detail));
    document.addEventListener("personaplex-microphone-gone", () => call.microphoneGone());
    for (const sign of SIGNS) document.addEventListener(sign, () => this.wake());
  }

  begin() {
    if (this.call.state === "talking") return;
    this.heard = false;
    this.since = null;
  }

  look({ you }) {
    if (this.call.state !== "talking") return;
    const now = performance.now();
    if (isMuted()) this.since = null;
    else this.since ??= now;
    this.heard ||= you > SILENT;
    this.tell("silent", !this.heard && this.since !== null && now - this.since > SILENT_MS ? WORDS.silent : "");
    this.tell("asleep", this.asleep() ? WORDS.asleep : "");
  }

  // Another microphone took the place of the one that went away.
  changed() {
    this.heard = false;
    this.since = null;
    this.tell("microphone", WORDS.another);
    setTimeout(() => this.call.state === "talking" && this.tell("microphone", ""), TOLD_MS);
  }

  // Whether the browser holds back what the persona says, as it may until the page is touched.
  asleep() {
    if (this.call.path === "socket") return Boolean(this.call.sound) && !this.call.sound.running;
    return players().some((player) => player.paused);
  }

  wake() {
    for (const player of players()) if (player.paused) player.play().catch(() => {});
  }

  tell(key, sentence) {
    if ((this.call.warnings[key] ?? "") !== sentence) this.call.warn({ ...this.call.warnings, [key]: sentence });
  }
}

// FastRTC's, with the talk's sound in them.
const players = () => [...document.querySelectorAll("#call audio")].filter(({ srcObject }) => srcObject?.active);
