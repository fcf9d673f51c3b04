// The choices that a talk is asked with, as the page's gradio boxes hold them: read, and filled through a hidden button
// whose event has them as its outputs (page.py). Every change is told by the event "personaplex-values" on the document.
// In: values by name. Out: the same. Must not know: personas, the server.

import { t } from "./i18n.js";

const config = window.personaplexConfig;
const KEEP = { __type__: "update" }; // gradio's word for a box that stays as it is
const LOOK_MS = 20;
const AGAIN_LOOKS = 20; // after which the button is pressed again
const PATIENCE_MS = 4000;
const STUCK = t("This page's boxes do not answer. Load it again.");

let wanted = {}; // by name of a box: its new properties
let fills = 0; // so far

window.personaplexFill = () => {
  const updates = config.fields.map((name) => ({ ...KEEP, ...wanted[name] }));
  wanted = {};
  return updates;
};

// What the boxes hold; null until gradio has told it for the first time.
export function values() {
  const held = window.personaplex?.values;
  return held && "prompt" in held ? held : null;
}

export function onValues(listen) {
  document.addEventListener("personaplex-values", () => listen(values()));
}

// Resolves once the boxes hold the values, or are filled with others meanwhile; rejects where they take none.
export async function fill(changes) {
  const mine = (fills += 1);
  let held = holds(changes);
  const look = () => { held ||= holds(changes); }; // the visitor may write on at once
  document.addEventListener("personaplex-values", look);
  try {
    for (const [name, value] of Object.entries(changes)) wanted[name] = { ...wanted[name], value };
    await pressed();
    await until(() => held || mine !== fills);
  } finally {
    document.removeEventListener("personaplex-values", look);
  }
}

// The voices to choose from: (words, name) pairs.
export async function offerVoices(choices) {
  wanted.voice = { ...wanted.voice, choices };
  await pressed();
}

// Presses the button until its event has taken what is wanted.
async function pressed() {
  await until((looks) => {
    if (Object.keys(wanted).length && looks % AGAIN_LOOKS === 0) button()?.click();
    return !Object.keys(wanted).length;
  });
}

// Looks again and again, patiently where the page is in the background: gradio draws nothing there.
async function until(met) {
  for (let looks = 0, waited = 0; !met(looks); looks += 1) {
    if (waited > PATIENCE_MS) throw new Error(STUCK);
    const began = performance.now();
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    if (!document.hidden) waited += performance.now() - began;
  }
}

// The element that has the id is the button itself, or a frame around it.
function button() {
  return document.querySelector("button#fill, #fill button");
}

function holds(changes) {
  const held = values();
  return held !== null && Object.entries(changes).every(([name, value]) => String(held[name] ?? "") === String(value));
}
