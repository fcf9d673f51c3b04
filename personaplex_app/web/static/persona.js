// What a persona is on the page, and how it meets the boxes that a talk is asked with. Pure.
//
// A persona: {title, pitch, prompt, voice, sampling: {five numbers}, seed: text, ask: [texts], tags, author, licence}.
// Values: the boxes' by name (form.py's FIELDS).

export const SAMPLING = ["audio_temperature", "text_temperature", "audio_top_k", "text_top_k", "repetition_penalty"];

const NEAR = 1e-6;
const ID_CHARACTERS = 32;

// The values that the boxes have to hold for a persona; `voice` is its own where that is to be had here.
export function valuesOf(persona, voice) {
  const sampling = Object.fromEntries(SAMPLING.filter((name) => name in persona.sampling).map((name) => [name, persona.sampling[name]]));
  return { prompt: persona.prompt, voice, ...sampling, seed: persona.seed || "" };
}

// A persona with what the boxes hold now.
export function withValues(persona, values) {
  const sampling = Object.fromEntries(SAMPLING.map((name) => [name, values[name]]));
  return { ...persona, prompt: values.prompt, voice: values.voice, sampling, seed: String(values.seed ?? "").trim() };
}

// Whether the boxes hold what the persona says.
export function isSame(persona, voice, values) {
  const wanted = valuesOf(persona, voice);
  const near = (name) => Math.abs(Number(wanted[name]) - Number(values[name])) < NEAR;
  const texts = ["prompt", "voice", "seed"].every((name) => String(wanted[name]).trim() === String(values[name] ?? "").trim());
  return texts && SAMPLING.every((name) => !(name in wanted) || near(name));
}

// What the server's checks, files and links know of a persona: nothing that only this page uses.
export function portable(persona) {
  const { title, pitch, prompt, voice, sampling, ask } = persona;
  return { title, pitch, prompt, voice, sampling, ask };
}

// A name that can be a file's: letters, digits and dashes.
export function slug(title) {
  const plain = title.normalize("NFKD").toLowerCase().replace(/[^a-z0-9]+/g, "-");
  return plain.slice(0, ID_CHARACTERS).replace(/^-+|-+$/g, "") || "persona";
}
