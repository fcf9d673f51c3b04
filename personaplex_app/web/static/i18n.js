// The page's words in the visitor's language. The English sentence is the key; `{name}` stands for a value.
//
// Whoever imports this waits for the words, and nobody waits in English. Elements that carry `data-t` (their text),
// `data-t-label`, `data-t-title` or `data-t-placeholder` are translated as soon as they stand on the page.
// In: English sentences and their values. Out: sentences in the page's language; what is unknown stays English.
// Must not know: who says it.

import { Sentences } from "./sentences.js";

const TAGS = { en: "en", zh: "zh-CN", ko: "ko" };
const KEY = "personaplex-language";
const ATTRIBUTES = { tLabel: "aria-label", tTitle: "title", tPlaceholder: "placeholder" };
const LABELLED = "input[aria-label], button[aria-label]";
const MARKED = "[data-t], [data-t-label], [data-t-title], [data-t-placeholder]";

export const LANGUAGES = { en: "English", zh: "中文", ko: "한국어" };
export const language = window.personaplexLanguage ?? "en";

const table = language === "en" ? {} : await words();
const page = table.page ?? {};
const sentences = new Sentences({ ...table.boxes, ...page, ...table.server }, table.server ?? {}, language);
const format = new Intl.NumberFormat(TAGS[language]);
const seen = new WeakSet();

// A sentence with its values in their places; numbers are written as the language writes them.
export function t(english, values = {}) {
  return filled(Object.hasOwn(page, english) ? page[english] : english, values);
}

// A sentence that the server made in English, or several, by the templates that they were made from.
export function translated(english) {
  return language === "en" || !english ? english ?? "" : sentences.translated(String(english));
}

// Keeps the choice and shows the page in it.
export function choose(chosen) {
  try {
    localStorage.setItem(KEY, chosen);
  } catch {
    return; // nothing can be kept: the page stays as the browser wishes it
  }
  document.dispatchEvent(new Event("personaplex-reload")); // whoever holds something keeps it now
  location.reload();
}

function filled(sentence, values) {
  return sentence.replace(/\{(\w+)\}/g, (whole, name) => (Object.hasOwn(values, name) ? written(values[name]) : whole));
}

const written = (value) => (typeof value === "number" ? format.format(value) : String(value));

async function words() {
  try {
    const coming = window.personaplexTable ?? fetch(new URL(`locales/${language}.json`, import.meta.url)).then((answer) => answer.json());
    return await coming;
  } catch (error) {
    console.warn(`no words in ${language}: ${error.message}`);
    return {};
  }
}

// What is marked, once each: a script that writes a text anew writes it in the page's language.
function translate(element) {
  if (seen.has(element)) return;
  seen.add(element);
  if ("t" in element.dataset) element.textContent = t(plain(element.textContent));
  for (const [mark, attribute] of Object.entries(ATTRIBUTES)) {
    if (mark in element.dataset) element.setAttribute(attribute, t(plain(element.getAttribute(attribute) ?? "")));
  }
}

const plain = (text) => text.trim().replace(/\s+/g, " ");

function translateIn(root) {
  if (root.matches?.(MARKED)) translate(root);
  root.querySelectorAll(MARKED).forEach(translate);
  root.querySelectorAll(LABELLED).forEach(relabel);
}

// What gradio says of its sliders in English alone.
function relabel(element) {
  const label = element.ariaLabel;
  const of = (beginning) => ({ box: label.slice(beginning.length) });
  if (label.startsWith("number input for ")) element.ariaLabel = t("number input for {box}", of("number input for "));
  if (label.startsWith("range slider for ")) element.ariaLabel = t("range slider for {box}", of("range slider for "));
  if (label === "Reset to default value") element.ariaLabel = element.title = t("Reset to default value");
}

function takeNew(changes) {
  for (const { addedNodes } of changes) {
    for (const node of addedNodes) if (node.nodeType === Node.ELEMENT_NODE) translateIn(node);
  }
}

if (language !== "en") {
  translateIn(document);
  new MutationObserver(takeNew).observe(document.documentElement, { childList: true, subtree: true });
}
delete document.documentElement.dataset.words;
