// Personas and voices on the page: the gallery, the coach, one's own, links. Joins the parts; each knows only its own.

import { showAbout } from "./about.js";
import { Actions } from "./actions.js";
import { Choice } from "./choice.js";
import { Coach } from "./coach.js";
import { fill, values } from "./fields.js";
import { Gallery } from "./gallery.js";
import { t } from "./i18n.js";
import { askedBy, personaIn } from "./link.js";
import { OwnVoice } from "./own_voice.js";
import { part, tell } from "./parts.js";
import { slug, portable } from "./persona.js";
import { Voices } from "./voices.js";
import { askJson, post } from "./wire.js";
import { kept, onKeptElsewhere } from "./yours.js";

const LOOK_MS = 50;
const STARTS_MS = 10_000;
const AGAIN_MS = 5_000;
const HELD = "personaplex-held"; // over a reload: {key of the card, values of the boxes}

const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

class Library {
  constructor() {
    this.personas = []; // the library's
    this.gallery = new Gallery((entry) => this.attempt(() => this.choose(entry)));
    this.voices = new Voices({ onUse: (name) => fill({ voice: name }) });
    this.ownVoice = new OwnVoice({ onOwn: (own) => this.setOwnVoices(own), onUse: (name) => fill({ voice: name }) });
    const standIn = () => this.voices.first;
    this.choice = new Choice({ voices: () => this.voices.names, standIn, onChange: (choice) => this.show(choice) });
    this.actions = new Actions({ choice: this.choice, onKept: () => this.showCards(), standIn });
    this.coach = new Coach({ onPrompt: (prompt) => this.writePrompt(prompt) });
    onKeptElsewhere(() => this.showCards());
    window.addEventListener("hashchange", () => this.openLink());
    document.addEventListener("personaplex-reload", () => this.hold());
  }

  // The library's personas; the page works without them until they come.
  async load() {
    for (;;) {
      try {
        this.personas = (await askJson("library/personas")).personas;
        break;
      } catch (error) {
        tell("told", t("The library is not there: {reason}", { reason: error.message }), { bad: true });
        await wait(AGAIN_MS);
      }
    }
    tell("told", "");
    this.showCards();
    if (!this.choice.current) this.choice.name(this.entries[kept().length] ?? null);
  }

  get entries() {
    const own = kept().reverse().map((persona) => ({ kind: "own", key: `own:${persona.id}`, persona, start: null }));
    const library = this.personas.map((persona) => ({ kind: "library", key: `library:${persona.id}`, persona, start: persona.start }));
    return [...own, ...library];
  }

  showCards() {
    this.gallery.show(this.entries);
    this.show(this.choice.current);
  }

  show(choice) {
    if (!choice) return;
    this.gallery.mark(choice.key);
    this.actions.show(choice);
    showAbout(choice, this.choice.edited);
  }

  // `told`: what to say of it, where nothing more urgent is to be said.
  async choose(entry, told = "") {
    const aside = await this.choice.take(entry);
    const there = entry.kind === "library" || this.voices.names.includes(entry.persona.voice);
    const voice = there ? told : t("The voice {voice} is not here; {other} speaks instead.", { voice: entry.persona.voice, other: values().voice });
    const more = aside ? { does: t("Bring them back"), run: () => this.attempt(() => this.choice.bringBack()) } : {};
    tell("told", [voice, aside ? t("Your changes were put aside.") : ""].filter(Boolean).join(" "), more);
  }

  async attempt(run) {
    try {
      await run();
    } catch (error) {
      tell("told", error.message, { bad: true });
    }
  }

  async writePrompt(prompt) {
    const before = values().prompt;
    await fill({ prompt });
    if (before.trim() && before !== prompt) {
      tell("coach-told", t("Your prompt was put aside."), { does: t("Bring it back"), run: () => fill({ prompt: before }) });
    }
  }

  async setOwnVoices(own) {
    await this.voices.setOwn(own);
    const used = values()?.voice;
    if (!used || this.voices.names.includes(used)) return;
    await fill({ voice: this.voices.first });
    tell("told", t("Your voice {used} is gone; {other} speaks instead.", { used, other: this.voices.first }));
  }

  // The persona that the page's address asks for. A fragment leaves the address, so that a reload keeps later edits.
  async openLink() {
    const link = askedBy(location);
    if (!link) return;
    if (link.fragment) history.replaceState(history.state, "", location.pathname + location.search);
    await this.attempt(async () => {
      const entry = link.fragment ? await this.guest(link.fragment) : this.libraryEntry(link.id);
      await this.choose(entry, link.fragment ? t("“{title}” came with the link: press Talk.", { title: entry.persona.title }) : "");
      this.gallery.reveal(entry.key);
    });
  }

  // Another language was chosen: what the boxes hold comes back after it.
  hold() {
    try {
      sessionStorage.setItem(HELD, JSON.stringify({ key: this.choice.current?.key ?? "", held: values() }));
    } catch {
      // nothing can be kept here
    }
  }

  async takeUp() {
    try {
      const { key, held } = JSON.parse(sessionStorage.getItem(HELD) ?? "{}");
      sessionStorage.removeItem(HELD);
      if (!held) return;
      const entry = this.entries.find((one) => one.key === key);
      if (entry) this.choice.name(entry);
      await fill(held);
    } catch {
      // the page is as it is after any reload
    }
  }

  async guest(fragment) {
    const { seed, ...held } = await personaIn(fragment);
    const { persona } = await post("library/check", { id: slug(held.title), ...portable(held) });
    return { kind: "guest", key: "", persona: { ...persona, seed } };
  }

  libraryEntry(id) {
    const entry = this.entries.find(({ kind, persona }) => kind === "library" && persona.id === id);
    if (!entry) throw new Error(id ? t("There is no persona “{id}” here.", { id }) : t("This link names no persona that could be here."));
    return entry;
  }

  async watchStarts() {
    while (this.personas.some(({ start }) => !start?.ready)) {
      await wait(STARTS_MS);
      if (document.hidden) continue;
      const { personas } = await askJson("library/personas").catch(() => ({ personas: [] }));
      const starts = new Map(personas.map(({ id, start }) => [`library:${id}`, start]));
      this.personas = this.personas.map((persona) => ({ ...persona, start: starts.get(`library:${persona.id}`) ?? persona.start }));
      this.gallery.showStarts(starts);
    }
  }
}

// Gradio puts its parts on the page, then tells what its boxes hold.
async function mounted() {
  while (!["cards", "coach", "voices", "about", "fill"].every(part) || !values()) await wait(LOOK_MS);
}

await mounted();
const library = new Library();
await library.ownVoice.refresh();
await library.load();
await library.openLink();
await library.takeUp();
document.documentElement.dataset.library = "ready"; // for those who drive the page by a script
library.watchStarts();
