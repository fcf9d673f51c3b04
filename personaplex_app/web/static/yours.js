// The visitor's own personas, in this browser's storage: bounded, read with suspicion, shared between its tabs.
//
// In and out: personas with an `id` of their own. What the storage does not take raises StorageRefused with a sentence.
// Must not know: the page, the server.

import { t } from "./i18n.js";
import { SAMPLING } from "./persona.js";

const KEY = "personaplex-personas";
const MOST_PERSONAS = 60;
const MOST_CHARACTERS = 600_000;
const TEXTS = ["id", "title", "pitch", "prompt", "voice", "seed", "author", "licence"];
const LISTS = ["ask", "tags"];

export class StorageRefused extends Error {}

export const MOST_TITLE = 80;

// Those that are kept, oldest first; none where the storage is forbidden or holds something else.
export function kept() {
  try {
    const held = JSON.parse(localStorage.getItem(KEY) || "[]");
    return Array.isArray(held) ? held.filter(isPersona).slice(0, MOST_PERSONAS) : [];
  } catch {
    return [];
  }
}

// Keeps a persona under a new id; returns it as it is kept.
export function keep(persona) {
  const mine = { ...cleaned(persona), id: freshId() };
  write([...kept(), mine]);
  return mine;
}

// Puts another persona in the place of the one with the id, or at the end where another tab has deleted it.
export function replace(id, persona) {
  const mine = { ...cleaned(persona), id };
  const all = kept();
  write(all.some((one) => one.id === id) ? all.map((one) => (one.id === id ? mine : one)) : [...all, mine]);
  return mine;
}

export function forget(id) {
  write(kept().filter((one) => one.id !== id));
}

// Another tab has changed what is kept.
export function onKeptElsewhere(listen) {
  window.addEventListener("storage", (event) => (event.key === KEY || event.key === null) && listen());
}

function write(personas) {
  if (personas.length > MOST_PERSONAS) {
    throw new StorageRefused(t("{most} personas are kept at most. Delete one, or export it as a file, first.", { most: MOST_PERSONAS }));
  }
  const text = JSON.stringify(personas);
  if (text.length > MOST_CHARACTERS) throw new StorageRefused(t("Your personas take too much room. Delete or export some first."));
  try {
    localStorage.setItem(KEY, text);
  } catch (error) {
    const full = error.name === "QuotaExceededError";
    throw new StorageRefused(full
      ? t("This browser's storage is full. Export the persona as a file instead.")
      : t("This browser lets this page store nothing. Export the persona as a file instead."));
  }
}

function isPersona(held) {
  if (typeof held !== "object" || held === null) return false;
  const texts = TEXTS.every((key) => typeof held[key] === "string");
  const lists = LISTS.every((key) => Array.isArray(held[key]) && held[key].every((one) => typeof one === "string"));
  const sampling = typeof held.sampling === "object" && held.sampling !== null && Object.entries(held.sampling)
    .every(([name, value]) => SAMPLING.includes(name) && Number.isFinite(value));
  return texts && lists && sampling;
}

function cleaned(persona) {
  const texts = Object.fromEntries(TEXTS.map((key) => [key, String(persona[key] ?? "")]));
  const lists = Object.fromEntries(LISTS.map((key) => [key, [...(persona[key] ?? [])]]));
  return { ...texts, title: [...texts.title].slice(0, MOST_TITLE).join(""), ...lists, sampling: { ...persona.sampling } };
}

// randomUUID is there on secure pages only.
function freshId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
