// The personas as cards in a field that scrolls, with a search and tags. One tab stop: arrow keys move, Enter chooses.
//
// In: entries {kind, key, persona, start: {ready, seconds} or null}. Out: `onChoose(entry)`. Must not know: what that does.

import { t, translated } from "./i18n.js";
import { make, part, write } from "./parts.js";

const FEW_CHIPS = 6;
const YOURS = "yours";
const STEPS = { ArrowRight: 1, ArrowLeft: -1 };

export class Gallery {
  constructor(onChoose) {
    this.onChoose = onChoose;
    this.entries = [];
    this.cards = new Map();
    this.tag = "";
    this.allChips = false;
    this.chosen = "";
    part("search").oninput = () => this.sift();
    part("cards").onkeydown = (event) => this.move(event);
  }

  show(entries) {
    const focused = document.activeElement?.dataset?.key;
    this.entries = entries;
    this.cards = new Map(entries.map((entry) => [entry.key, this.card(entry)]));
    part("cards").replaceChildren(...this.cards.values(), make("p", { id: "none-found", textContent: t("No persona fits."), hidden: true }));
    this.showChips();
    this.mark(this.chosen);
    this.sift();
    if (focused) this.cards.get(focused)?.focus();
  }

  // The chosen card, by its key; none where nothing on a card is chosen.
  mark(key) {
    this.chosen = key;
    for (const [one, card] of this.cards) card.setAttribute("aria-pressed", one === key);
    this.setStop();
  }

  // How soon each can start; the cards stay as they are.
  showStarts(starts) {
    for (const entry of this.entries) entry.start = starts.get(entry.key) ?? entry.start;
    for (const entry of this.entries) showStart(this.cards.get(entry.key).querySelector(".start"), entry);
  }

  reveal(key) {
    this.cards.get(key)?.scrollIntoView({ block: "nearest" });
  }

  card(entry) {
    const { title, pitch, tags, author } = entry.persona;
    const start = make("span", { className: "start" });
    showStart(start, entry);
    const by = entry.kind === "own" ? t("yours") : author && t("by {author}", { author });
    const foot = make("span", { className: "foot" }, make("span", { className: "by", textContent: by }), start);
    return make(
      "button",
      { type: "button", className: "card", dataset: { key: entry.key }, onclick: () => this.onChoose(entry) },
      make("span", { className: "title", textContent: title }),
      make("span", { className: "pitch", textContent: pitch }),
      make("span", { className: "tags", textContent: tags.map(translated).join(" · ") }),
      foot,
    );
  }

  // Tags, the most used first.
  showChips() {
    const counts = new Map();
    for (const { kind, persona } of this.entries) {
      for (const tag of kind === "own" ? [YOURS, ...persona.tags] : persona.tags) counts.set(tag, (counts.get(tag) ?? 0) + 1);
    }
    const first = (tag) => (tag === YOURS ? 1 : 0);
    const tags = [...counts.keys()].sort((a, b) => first(b) - first(a) || counts.get(b) - counts.get(a) || a.localeCompare(b));
    if (!tags.includes(this.tag)) this.tag = "";
    const shown = this.allChips ? tags : tags.slice(0, FEW_CHIPS);
    if (this.tag && !shown.includes(this.tag)) shown.push(this.tag);
    const chips = shown.map((tag) => chip(tag === YOURS ? t("yours") : translated(tag), tag === this.tag, () => this.pick(tag), tag));
    if (tags.length > FEW_CHIPS) {
      const words = this.allChips ? t("fewer tags") : t("{count} more tags", { count: tags.length - FEW_CHIPS });
      chips.push(chip(words, null, () => this.unfold()));
    }
    part("chips").replaceChildren(...chips);
  }

  pick(tag) {
    this.tag = this.tag === tag ? "" : tag;
    this.showChips();
    [...part("chips").children].find((one) => one.dataset.tag === tag)?.focus();
    this.sift();
  }

  unfold() {
    this.allChips = !this.allChips;
    this.showChips();
    part("chips").lastElementChild?.focus();
  }

  // Shows those that hold every word and the tag.
  sift() {
    const words = part("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (const { key, kind, persona } of this.entries) {
      const { title, pitch, tags, author, prompt } = persona;
      const text = [title, pitch, author, prompt, ...tags, ...tags.map(translated)].join("\n").toLowerCase();
      const tagged = !this.tag || tags.includes(this.tag) || (this.tag === YOURS && kind === "own");
      const fits = tagged && words.every((word) => text.includes(word));
      this.cards.get(key).hidden = !fits;
      found += fits ? 1 : 0;
    }
    part("none-found").hidden = found > 0 || !this.entries.length;
    write(part("found"), words.length || this.tag ? t("{found} of {all} personas", { found, all: this.entries.length }) : "");
    this.setStop();
  }

  get visible() {
    return [...this.cards.values()].filter((card) => !card.hidden);
  }

  // Where Tab comes in: the chosen card, or the first.
  setStop() {
    const visible = this.visible;
    const stop = visible.find((card) => card.dataset.key === this.chosen) ?? visible[0];
    for (const card of this.cards.values()) card.tabIndex = card === stop ? 0 : -1;
  }

  move(event) {
    const visible = this.visible;
    const at = visible.indexOf(event.target.closest(".card"));
    if (at < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    const columns = visible.filter((card) => card.offsetTop === visible[0].offsetTop).length;
    const steps = { ...STEPS, ArrowDown: columns, ArrowUp: -columns, Home: -at, End: visible.length - 1 - at };
    if (!(event.key in steps)) return;
    event.preventDefault();
    const to = visible[Math.max(0, Math.min(visible.length - 1, at + steps[event.key]))];
    for (const card of visible) card.tabIndex = card === to ? 0 : -1;
    to.focus();
    to.scrollIntoView({ block: "nearest" });
  }
}

function chip(text, pressed, run, tag = "") {
  const made = make("button", { type: "button", className: "chip", textContent: text, onclick: run, dataset: { tag } });
  if (pressed !== null) made.setAttribute("aria-pressed", pressed);
  return made;
}

function showStart(element, { start }) {
  element.classList.toggle("ready", Boolean(start?.ready));
  write(element, startWords(start));
}

export function startWords(start) {
  if (!start) return "";
  if (start.ready) return t("ready");
  return start.seconds < 1 ? t("primes in under 1 s") : t("primes in about {seconds} s", { seconds: Math.round(start.seconds) });
}
