// A voice of one's own: recorded or from a file, sent once the statement is ticked, used, and deleted at any time.
//
// In: presses. Out: `onOwn([{name, words}])` whenever they change, `onUse(name)` for a new one. What the server keeps is
// the server's to say (`voices/own`). Must not know: the list of voices, the gallery.

import { t, translated } from "./i18n.js";
import { button, fillBar, make, part, tell, write } from "./parts.js";
import { record } from "./recorder.js";
import { address, askJson } from "./wire.js";
import { microphoneWords } from "./words.js";

const LEAST_SECONDS = 3;
const MOST_SECONDS = 30;
const MOST_BYTES = 12 * 1024 * 1024;
const SENDING_MS = 120_000;
const MINUTE_MS = 60_000;
const FLOOR_DB = -60;

export class OwnVoice {
  constructor({ onOwn, onUse }) {
    Object.assign(this, { onOwn, onUse });
    this.recording = null; // while it runs
    this.clip = null; // {blob, name}
    part("record").onclick = () => this.attempt(() => (this.recording ? this.endRecording() : this.startRecording()));
    part("choose-clip").onclick = () => this.consented() && part("clip-file").click();
    part("clip-file").onchange = () => this.attempt(() => this.takeFile());
    part("send-clip").onclick = () => this.attempt(() => this.send());
    part("drop-clip").onclick = () => this.dropClip();
    part("own").ontoggle = () => part("own").open && this.refresh();
    setInterval(() => part("own").open && !document.hidden && this.refresh(), MINUTE_MS);
  }

  // What the server keeps for this browser; a server that cannot say keeps nothing that could be used.
  async refresh() {
    try {
      const { voices } = await askJson("voices/own");
      this.show(voices);
    } catch (error) {
      if (part("own").open) this.say(error.message, true);
    }
  }

  show(voices) {
    clearTimeout(this.later);
    if (voices.length) this.later = setTimeout(() => this.refresh(), 1000 * Math.min(...voices.map((one) => one.expires_seconds)) + 500);
    const state = JSON.stringify(voices.map(({ voice }) => voice));
    part("own-list").replaceChildren(...voices.map((one) => this.row(one)));
    if (state === this.shown) return undefined;
    this.shown = state;
    return this.onOwn(voices.map(({ voice, seconds }) => ({ name: voice, words: t("{voice} · your own, {seconds} s", { voice, seconds: seconds.toFixed(0) }) })));
  }

  row({ voice, seconds, expires_seconds: left }) {
    const lasts = { voice, seconds: seconds.toFixed(1), minutes: Math.max(1, Math.round(left / 60)) };
    const words = t("{voice} · {seconds} s of sound · for another {minutes} min", lasts);
    return make(
      "div",
      { className: "voice" },
      make("span", { className: "name", textContent: words }),
      button(t("Use"), () => this.onUse(voice), { aria: { label: t("Use {name}", { name: voice }) } }),
      button(t("Delete"), () => this.attempt(() => this.remove(voice)), { aria: { label: t("Delete {name}", { name: voice }) } }),
    );
  }

  async remove(voice) {
    await askJson(`voices/own/${encodeURIComponent(voice)}`, { method: "DELETE" });
    this.say(t("{voice} is deleted.", { voice }));
    await this.refresh();
  }

  consented() {
    const ticked = part("consent").checked;
    if (!ticked) {
      this.say(t("Read and tick the statement first."), true);
      part("consent").focus();
    }
    return ticked;
  }

  // Recording.

  async startRecording() {
    if (!this.consented()) return;
    this.dropClip();
    part("record").disabled = true;
    try {
      this.recording = await record({
        base: address("talk/static"),
        mostSeconds: MOST_SECONDS,
        onLevel: (level, seconds) => this.showLevel(level, seconds),
        onEnd: () => this.attempt(() => this.endRecording()),
      });
    } catch (error) {
      throw new Error(microphoneWords(error));
    } finally {
      part("record").disabled = false;
    }
    this.seconds = 0;
    part("record").textContent = t("Stop");
    part("recording").hidden = false;
    this.showLevel(0, 0);
    this.say(t("Speak as you would to the persona: a few whole sentences, in a quiet room."));
  }

  showLevel(level, seconds) {
    this.seconds = seconds;
    const db = 20 * Math.log10(Math.max(level, 1e-6));
    fillBar(part("level"), 1 - db / FLOOR_DB, `${db.toFixed(0)} dB`);
    part("level").classList.toggle("full", level > 0.98);
    const missing = LEAST_SECONDS - seconds;
    const had = seconds.toFixed(0);
    write(part("recorded"), missing > 0
      ? t("{had} s · {missing} s more at least", { had, missing: Math.ceil(missing) })
      : t("{had} s · {left} s left", { had, left: Math.ceil(MOST_SECONDS - seconds) }));
  }

  endRecording() {
    const { recording } = this;
    if (!recording) return;
    this.recording = null;
    const blob = recording.stop();
    part("record").textContent = t("Record");
    part("recording").hidden = true;
    if (this.seconds < LEAST_SECONDS) {
      throw new Error(t("That was {seconds} s; {least} are the least.", { seconds: this.seconds.toFixed(1), least: LEAST_SECONDS }));
    }
    this.offer(blob, "recording.wav", t("Your recording"));
  }

  // A file.

  takeFile() {
    const [file] = part("clip-file").files;
    if (!file) return;
    part("clip-file").value = "";
    if (file.size > MOST_BYTES) throw new Error(t("{name} is larger than 12 MB. 3 to 30 seconds are enough.", { name: file.name }));
    this.offer(file, file.name);
  }

  offer(blob, name, words = name) {
    this.dropClip();
    this.clip = { blob, name };
    part("clip-sound").src = URL.createObjectURL(blob);
    part("clip").hidden = false;
    this.say(t("{name}: listen to it, then make it a voice.", { name: words }));
    part("send-clip").focus();
  }

  dropClip() {
    if (this.clip) URL.revokeObjectURL(part("clip-sound").src);
    this.clip = null;
    part("clip-sound").removeAttribute("src");
    part("clip").hidden = true;
    this.say("");
  }

  // Sending.

  async send() {
    if (!this.clip || !this.consented()) return;
    const { blob, name } = this.clip;
    part("send-clip").disabled = true;
    this.say(t("Making the voice ..."));
    try {
      const headers = { "x-consent": "yes", "x-file-name": encodeURIComponent(name.slice(-100)), "content-type": "application/octet-stream" };
      const made = await askJson("voices/own", { method: "POST", body: blob, headers, patienceMs: SENDING_MS });
      this.dropClip();
      await this.refresh();
      await this.onUse(made.voice);
      const words = { voice: made.voice, seconds: made.seconds.toFixed(1) };
      this.say([t("Your voice is {voice}, and in use: {seconds} s of sound.", words), ...made.notes.map(translated)].join(" "));
    } finally {
      part("send-clip").disabled = false;
    }
  }

  async attempt(run) {
    try {
      await run();
    } catch (error) {
      this.say(error.message, true);
    }
  }

  say(sentence, bad = false) {
    tell("own-told", sentence, { bad });
  }
}
