// What is kept of a talk: the consent to a recording, what the server keeps of it, and the words as files.
//
// The consent is the visitor's alone: never ticked by itself, it holds until it is unticked or the page is closed.
// In: presses, the server's messages. Out: `record` on the talk's socket, downloads. Must not know: the sound's ways.

import { SYNTHETIC, cuesOf, srt, vtt } from "./captions.js";
import { t, translated } from "./i18n.js";
import { button, make, part, tell, write } from "./parts.js";
import { clock } from "./turns.js";
import { address, askJson } from "./wire.js";

const LOOK_MS = 50;
const MINUTE_MS = 60_000;
const VERSION = 1;
const FILES = ["wav", "srt", "vtt", "json"];
const IN_TALK = ["waiting", "turn", "busy", "talking"];

const call = () => window.personaplex;

class Keep {
  constructor() {
    this.told = null; // the server's last word on this talk's recording
    this.applied = []; // what held, as the server said it, one after another
    part("keep-consent").onchange = () => this.consent(part("keep-consent").checked);
    part("keep-kinds").replaceChildren(
      ...Object.keys(WORDS).map((kind) => button(kind.toUpperCase(), () => this.saveWords(kind), { aria: { label: t("Save the words as {kind}", { kind: kind.toUpperCase() }) } })),
    );
    document.addEventListener("personaplex-message", ({ detail }) => this.take(detail));
    document.addEventListener("personaplex-state", ({ detail }) => this.takeState(detail));
    setInterval(() => part("keep-list").childElementCount && !document.hidden && this.refresh(), MINUTE_MS);
  }

  // Ticked or not; in the midst of a talk it holds from now on.
  consent(on) {
    tell("keep-told", "");
    if (IN_TALK.includes(call().state)) call().line.send({ type: "record", on });
  }

  take(message) {
    const taking = {
      admitted: () => this.admitted(),
      recording: () => this.takeRecording(message),
      refused: () => this.refused(message),
      talk: () => this.takeApplied(message.applied),
      started_over: () => { this.applied = []; },
      said: () => { part("keep-words").hidden = false; },
      ended: () => this.over(),
    }[message.type];
    taking?.();
  }

  // The server knows of a talk that comes back whether it is recorded; it may have been unticked meanwhile.
  admitted() {
    const on = part("keep-consent").checked;
    if (call().grant ? this.told?.on && !on : on) call().line.send({ type: "record", on });
  }

  takeState(state) {
    if (state === "busy" && !call().grant) {
      this.told = null;
      this.applied = [];
      part("keep-words").hidden = true;
      tell("keep-told", "");
    }
    if (state === "idle") this.over();
  }

  takeApplied(words) {
    if (words !== this.applied.at(-1)) this.applied.push(words);
  }

  takeRecording(message) {
    const { id, on, sentence, expires_seconds: left } = message;
    const before = this.told;
    this.told = message;
    this.showLive();
    if (before?.id === id && before?.on === on && before?.sentence === sentence) return;
    tell("keep-told", translated(sentence), { bad: !on && !id && !part("keep-consent").checked });
    if (!on && id && left === null) part("keep-consent").checked = false; // full, long enough, deleted elsewhere
    this.refresh();
  }

  refused({ code, sentence }) {
    if (!["no_cookie", "no_recordings", "recordings_full", "too_many_recordings"].includes(code)) return;
    part("keep-consent").checked = false;
    tell("keep-told", translated(sentence), { bad: true });
  }

  over() {
    if (this.told?.on) this.told = { ...this.told, on: false };
    this.showLive();
    this.refresh();
  }

  showLive() {
    const on = Boolean(this.told?.on);
    part("keep-live").hidden = !on;
    if (on) write(part("keep-length"), clock(this.told.seconds));
  }

  // What the server keeps for this browser, and whether it keeps any.
  async refresh() {
    try {
      const { possible, recordings } = await askJson("recordings");
      part("keep-ask").hidden = !possible;
      this.show(recordings.map((one) => ({ ...one, minutes: Math.max(1, Math.round((one.expires_seconds ?? 0) / 60)) })));
    } catch (error) {
      tell("keep-told", error.message, { bad: true });
    }
  }

  // Rows that say what they said stay as they are: one of them may be pressed just now, or have the focus.
  show(recordings) {
    const rows = new Map([...part("keep-list").children].map((row) => [row.dataset.says, row]));
    const wanted = recordings.map((one) => {
      const says = JSON.stringify([one.id, one.on, one.bytes, one.minutes]);
      return rows.get(says) ?? this.row(one, says);
    });
    if (wanted.length !== rows.size || wanted.some((row, at) => row !== part("keep-list").children[at])) {
      part("keep-list").replaceChildren(...wanted);
    }
  }

  row({ id, on, seconds, bytes, minutes, expires_seconds: left }, says) {
    const values = { length: clock(seconds), minutes };
    const words = on ? t("Recording goes on") : left === null ? values.length : t("{length} · kept for another {minutes} min", values);
    const size = `${Math.max(0.1, bytes / 1e6).toFixed(1)} MB`;
    const link = (kind) => make("a", { href: address(`recordings/${id}.${kind}`), download: "", textContent: kind === "wav" ? `WAV (${size})` : kind.toUpperCase() });
    return make(
      "li",
      { dataset: { says } },
      make("span", { className: "length", textContent: words }),
      make("span", { className: "files" }, ...(on ? [] : FILES.map(link))),
      button(t("Delete"), () => this.remove(id), { aria: { label: t("Delete the recording of {length}", values) } }),
    );
  }

  async remove(id) {
    try {
      await askJson(`recordings/${id}`, { method: "DELETE" });
      if (this.told?.id === id && this.told.on) part("keep-consent").checked = false;
      await this.refresh();
      tell("keep-told", t("The recording is deleted."));
    } catch (error) {
      tell("keep-told", error.message, { bad: true });
    }
  }

  saveWords(kind) {
    const text = WORDS[kind](call().transcript, this);
    const url = URL.createObjectURL(new Blob([text], { type: "text/plain;charset=utf-8" }));
    make("a", { href: url, download: `talk.${kind}` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }
}

const turnsOf = (transcript) => transcript.entries.filter(({ who }) => who !== "remark");

function captions(transcript) {
  const turns = turnsOf(transcript);
  return cuesOf(turns, Math.max(0, ...turns.map(({ start, end }) => end ?? start + 1)));
}

const WORDS = {
  txt: (transcript) => `${SYNTHETIC}\n\n${transcript.text}\n`,
  srt: (transcript) => srt(captions(transcript)),
  vtt: (transcript) => vtt(captions(transcript)),
  json: (transcript, { applied }) => JSON.stringify(
    {
      version: VERSION,
      synthetic: true,
      notice: SYNTHETIC,
      choices: call().choices(),
      applied,
      turns: turnsOf(transcript),
      remarks: transcript.entries.filter(({ who }) => who === "remark").map(({ text, start }) => ({ sentence: text, start })),
    },
    null,
    1,
  ),
};

async function mounted() {
  while (!part("keep") || !call()) await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
}

await mounted();
const keep = new Keep();
part("keep").hidden = false;
keep.refresh();
