// Persona links: a library persona by `?persona=ID`, any other in the fragment `#p=`, as JSON, deflated, in base64url; no
// server sees a fragment. What comes out is still to be checked by the server (`library/check`).
// In and out: personas. A link that cannot be used raises LinkRefused with a sentence. Must not know: the page.

import { t } from "./i18n.js";
import { SAMPLING, portable } from "./persona.js";

export const MOST_FRAGMENT = 8000; // characters
export const MOST_TEXT = 20000; // characters, unpacked
const MOST_BYTES = 4 * MOST_TEXT; // of UTF-8
const VERSION = 1;
const KEYS = ["v", "title", "pitch", "prompt", "voice", "sampling", "seed", "ask"];
const TEXTS = ["title", "pitch", "prompt", "voice", "seed"];
const SEED = /^\d{0,19}$/;
const ID = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;

export class LinkRefused extends Error {}

const DAMAGED = t("This link is damaged: it holds no persona that can be read. Ask for it again.");

// A link to a library persona as it stands.
export function linkById(page, id) {
  const link = new URL(page);
  link.hash = "";
  link.search = "";
  link.searchParams.set("persona", id);
  return link.href;
}

// A link that carries the persona itself.
export async function linkTo(page, persona) {
  const text = JSON.stringify({ v: VERSION, ...portable(persona), seed: persona.seed || "" });
  const packed = text.length <= MOST_TEXT ? toBase64(await deflated(text)) : "";
  const fragment = `p=${packed}`;
  if (!packed || fragment.length > MOST_FRAGMENT) {
    throw new LinkRefused(t("This persona is too long for a link. Export it as a file instead."));
  }
  const link = new URL(page);
  link.search = "";
  link.hash = fragment;
  return link.href;
}

// What a page's address asks for: {id}, {fragment} or null.
export function askedBy(location) {
  if (location.hash.startsWith("#p=")) return { fragment: location.hash.slice(1) };
  const id = new URLSearchParams(location.search).get("persona");
  if (id === null) return null;
  return { id: ID.test(id) ? id : "" };
}

// The persona in a fragment `p=...`.
export async function personaIn(fragment) {
  if (fragment.length > MOST_FRAGMENT) {
    const lengths = { characters: fragment.length, most: MOST_FRAGMENT };
    throw new LinkRefused(t("This link is too long: {characters} characters, and {most} are the most.", lengths));
  }
  const packed = fragment.slice("p=".length);
  if (!/^[A-Za-z0-9_-]+$/.test(packed)) throw new LinkRefused(DAMAGED);
  return checked(parsed(await inflated(fromBase64(packed))));
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new LinkRefused(DAMAGED);
  }
}

// Only what a persona is made of: no key that a link may not have, and each of its kind.
function checked(held) {
  if (typeof held !== "object" || held === null || Array.isArray(held)) throw new LinkRefused(DAMAGED);
  const unknown = Object.keys(held).find((key) => !KEYS.includes(key));
  if (unknown !== undefined) {
    const names = { unknown: unknown.slice(0, 40), known: KEYS.join(", ") };
    throw new LinkRefused(t('This link was refused: it holds "{unknown}", and a link may hold only {known}.', names));
  }
  if (held.v !== VERSION) throw new LinkRefused(t("This link was made by another version of this page."));
  const { v, ...persona } = held;
  const wrong = wrongKey(persona);
  if (wrong) throw new LinkRefused(t("This link was refused: its {wrong} cannot be used.", { wrong }));
  return persona;
}

function wrongKey({ sampling, ask, seed, ...texts }) {
  const wrong = TEXTS.find((key) => key !== "seed" && typeof texts[key] !== "string");
  if (wrong) return wrong;
  if (typeof seed !== "string" || !SEED.test(seed)) return "seed";
  if (typeof sampling !== "object" || sampling === null) return "sampling";
  const numbers = Object.entries(sampling).every(([name, value]) => SAMPLING.includes(name) && Number.isFinite(value));
  if (!numbers) return "sampling";
  return Array.isArray(ask) && ask.every((question) => typeof question === "string") ? "" : "ask";
}

async function deflated(text) {
  return through("CompressionStream", new TextEncoder().encode(text), Infinity);
}

async function inflated(bytes) {
  let unpacked;
  try {
    unpacked = await through("DecompressionStream", bytes, MOST_BYTES);
    const text = new TextDecoder("utf-8", { fatal: true }).decode(unpacked);
    if (text.length <= MOST_TEXT) return text;
  } catch (error) {
    throw error instanceof LinkRefused ? error : new LinkRefused(DAMAGED);
  }
  throw new LinkRefused(tooMuch());
}

const tooMuch = () => t("This link was refused: it unpacks to more than {most} characters.", { most: MOST_TEXT });

// Bytes through one of the browser's streams; stops as soon as more than `most` came out.
async function through(stream, bytes, most) {
  if (!window[stream]) throw new LinkRefused(t("This browser is too old for persona links."));
  const { readable, writable } = new window[stream]("deflate-raw");
  const writer = writable.getWriter();
  writer.write(bytes).catch(() => {}); // what is wrong is told where it is read
  writer.close().catch(() => {});
  const reader = readable.getReader();
  const pieces = [];
  let length = 0;
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    length += read.value.length;
    if (length > most) {
      reader.cancel().catch(() => {});
      throw new LinkRefused(tooMuch());
    }
    pieces.push(read.value);
  }
  return joined(pieces, length);
}

function joined(pieces, length) {
  const all = new Uint8Array(length);
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}

function toBase64(bytes) {
  const text = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function fromBase64(text) {
  try {
    return Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
  } catch {
    throw new LinkRefused(DAMAGED);
  }
}
