// The transcript: what the persona said, when the visitor spoke, and what the loop guard did, in the order of time.
//
// In: the server's messages `said` and `guard`. Out: lines in #transcript, the same as text, and as values for captions.
// Texts go in as text, never as HTML. Must not know: the call, sound.

import { t, translated } from "./i18n.js";
import { make, part, write } from "./parts.js";

const NEAR_END_PX = 24; // who is so near the end reads along
const TOLD_MS = 2500;

// m:ss, as people write seconds of a talk.
export function clock(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

export class Transcript {
  constructor() {
    this.clear();
  }

  clear() {
    this.lines = new Map(); // by who and number
    part("transcript")?.replaceChildren();
    this.showCopy();
  }

  // A turn, new or changed.
  said({ who, number, text, start, end }) {
    this.put(`${who} ${number}`, { who, text, start, end });
  }

  // What the loop guard did; after a resume all come again, each by its number.
  remark({ number, second, sentence }) {
    this.put(`remark ${number}`, { who: "remark", text: sentence, start: second, end: second });
  }

  put(key, entry) {
    const box = part("transcript");
    const follows = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_END_PX;
    const line = this.lines.get(key) ?? this.insert(key, entry, box);
    line.entry = entry;
    grow(line.element.lastChild, words(entry));
    if (follows) box.scrollTop = box.scrollHeight;
    this.showCopy();
  }

  insert(key, entry, box) {
    const element = make("div", { className: `said-line ${entry.who}` }, make("time", { textContent: clock(entry.start) }), " ");
    if (entry.who === "persona") element.append(make("span", { className: "who", textContent: t("Persona") }), " ");
    if (entry.who === "you") element.title = t("Only when you spoke is known: nothing here writes down what you say.");
    element.append(make("span", { className: "said" }));
    const line = { entry, element };
    const later = this.inOrder().find((other) => other.entry.start > entry.start);
    box.insertBefore(element, later?.element ?? null);
    this.lines.set(key, line);
    return line;
  }

  inOrder() {
    return [...this.lines.values()].sort((a, b) => a.entry.start - b.entry.start);
  }

  // Turns and remarks as values, in the order of time.
  get entries() {
    return this.inOrder().map(({ entry }) => entry);
  }

  get text() {
    return this.entries.map(asText).join("\n");
  }

  showCopy() {
    const copy = part("copy-transcript");
    if (copy) copy.hidden = this.lines.size === 0;
  }

  // Resolves once the button has said how it went.
  async copy() {
    const copy = part("copy-transcript");
    try {
      await navigator.clipboard.writeText(this.text);
      copy.textContent = t("Copied");
    } catch {
      getSelection().selectAllChildren(part("transcript"));
      copy.textContent = t("Press Ctrl+C to copy");
    }
    setTimeout(() => { copy.textContent = t("Copy the transcript"); }, TOLD_MS);
  }
}

// Adds what is new, so that only that is read aloud.
function grow(element, text) {
  const before = element.textContent;
  if (before && text.startsWith(before)) element.append(text.slice(before.length));
  else write(element, text);
}

function words({ who, text, start, end }) {
  if (who === "remark") return translated(text);
  if (who !== "you") return text;
  if (end === null) return t("You are speaking ...");
  return t("You spoke, {seconds} s", { seconds: Math.max(1, Math.round(end - start)) });
}

function asText(entry) {
  const said = words(entry);
  const line = entry.who === "persona" ? `${t("Persona")}: ${said}` : `(${said})`;
  return `${clock(entry.start)} ${line}`;
}
