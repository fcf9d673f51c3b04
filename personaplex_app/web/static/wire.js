// Our server's library, coach and voices: asked with JSON or bytes, answered with JSON; what goes wrong is a sentence.

import { t, translated } from "./i18n.js";
import { WORDS } from "./words.js";

const PATIENCE_MS = 30000;

export class Refused extends Error {
  // sentence: for the visitor. status: HTTP's, 0 where nothing answered.
  constructor(sentence, status) {
    super(sentence);
    this.status = status;
  }
}

export const address = (path) => new URL(path, document.baseURI).href;

// Resolves with the answer; raises Refused, or the AbortError of the signal that was given.
export async function asked(path, { method = "GET", body, headers = {}, signal, patienceMs = PATIENCE_MS } = {}) {
  const late = AbortSignal.timeout(patienceMs);
  let answer;
  try {
    answer = await fetch(address(path), { method, body, headers, cache: "no-store", signal: either(signal, late) });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refused(WORDS.unreachable, 0);
  }
  if (!answer.ok) throw new Refused(await sentenceOf(answer), answer.status);
  return answer;
}

export async function askJson(path, options) {
  const answer = await asked(path, options);
  try {
    return await answer.json();
  } catch {
    throw new Refused(WORDS.unreachable, 0);
  }
}

export const post = (path, value, options = {}) =>
  askJson(path, { ...options, method: "POST", body: JSON.stringify(value), headers: { "content-type": "application/json" } });

async function sentenceOf(answer) {
  try {
    const { error, sentence } = await answer.json();
    if (typeof (error ?? sentence) === "string") return translated(error ?? sentence);
  } catch {
    // no JSON: a proxy's own page
  }
  if (answer.status === 413) return t("That is too large for this server.");
  return t("The server refused ({status}). Try again in a moment.", { status: answer.status });
}

function either(first, second) {
  if (!first) return second;
  const joined = new AbortController();
  for (const signal of [first, second]) signal.addEventListener("abort", () => joined.abort(signal.reason), { once: true });
  if (first.aborted) joined.abort(first.reason);
  return joined.signal;
}
