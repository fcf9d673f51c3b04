// The voices by gender and style, each to be heard and used; the visitor's own come first.
//
// In: what the server says of voices (`voices/previews`), the own ones as {name, words}. Out: `onUse(name)`.
// Must not know: how a voice of one's own is made, the gallery.

import { offerVoices, onValues, values } from "./fields.js";
import { t, translated } from "./i18n.js";
import { button, make, part, tell } from "./parts.js";
import { Player } from "./player.js";
import { askJson } from "./wire.js";

const config = window.personaplexConfig;
const TITLES = {
  "natural female": t("Female, natural"),
  "natural male": t("Male, natural"),
  "varied female": t("Female, varied"),
  "varied male": t("Male, varied"),
};

export class Voices {
  constructor({ onUse }) {
    this.onUse = onUse;
    this.own = []; // {name, words}
    this.told = []; // as the server tells of them
    this.uses = new Map();
    this.player = new Player({ onRefused: (sentence) => tell("hear-told", sentence, { bad: true }) });
    part("hear").ontoggle = () => (part("hear").open ? this.open() : this.player.stop());
    onValues(() => this.mark());
  }

  // All names, own ones first, "none" last.
  get names() {
    return [...this.own.map(({ name }) => name), ...config.voices.map(([, name]) => name)];
  }

  // The voice for those who may not use one's own.
  get first() {
    return config.voices[0]?.[1] ?? "none";
  }

  async setOwn(own) {
    this.own = own;
    const offered = config.voices.map(([words, name]) => [translated(words), name]);
    await offerVoices([...own.map(({ name, words }) => [words, name]), ...offered]);
    if (this.told.length) this.show();
  }

  async open() {
    if (this.told.length) return;
    tell("hear-told", t("One moment ..."));
    try {
      const { voices } = await askJson("voices/previews");
      this.told = voices;
      this.show();
    } catch (error) {
      tell("hear-told", error.message, { bad: true });
    }
  }

  show() {
    this.player.stop();
    const own = this.own.map(({ name, words }) => ({ name, words, style: "own" }));
    const others = this.told.filter(({ style }) => style !== "own");
    const groups = new Map();
    for (const voice of [...own, ...others]) {
      const title = titleOf(voice);
      groups.set(title, [...(groups.get(title) ?? []), voice]);
    }
    const notes = [...new Set(others.map(({ note }) => note).filter(Boolean))];
    tell("hear-told", notes.length === 1 ? translated(notes[0]) : "");
    this.uses.clear();
    part("hear-list").replaceChildren(...[...groups].map(([title, voices]) => this.group(title, voices, notes.length > 1)));
    this.mark();
  }

  group(title, voices, noted) {
    const rows = voices.map((voice) => this.row(voice, noted));
    return make("div", { role: "group", aria: { label: title } }, make("strong", { textContent: title }), ...rows);
  }

  row({ name, words, preview, note }, noted) {
    const listen = button(t("Listen"), () => this.player.press(listen, preview), { aria: { label: t("Listen to {name}", { name }) }, disabled: !preview });
    const use = button(t("Use"), () => this.onUse(name), { aria: { label: t("Use {name}", { name }), pressed: "false" } });
    this.uses.set(name, use);
    const shown = make("span", { className: "name", textContent: words ?? name });
    return make("div", { className: "voice" }, shown, ...(preview === undefined ? [] : [listen]), use, ...(noted && note ? [make("small", { textContent: translated(note) })] : []));
  }

  mark() {
    const used = values()?.voice;
    for (const [name, use] of this.uses) {
      use.setAttribute("aria-pressed", name === used);
      use.textContent = name === used ? t("In use") : t("Use");
    }
  }
}

function titleOf({ style, gender }) {
  if (style === "own") return t("Your own");
  return TITLES[`${style} ${gender}`] ?? t("Others");
}
