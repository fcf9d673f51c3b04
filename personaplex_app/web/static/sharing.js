// A persona on its way out and in: a link to the clipboard, a YAML file to the disk and from it.
//
// In: personas. Out: sentences for the visitor, and what a file held. What cannot be done raises an Error whose message
// is a sentence. Must not know: cards, storage, the boxes.

import { t } from "./i18n.js";
import { linkById, linkTo } from "./link.js";
import { make, part } from "./parts.js";
import { portable, slug } from "./persona.js";
import { post } from "./wire.js";

const MOST_FILE_BYTES = 200_000;
const OWN_VOICE = /^own-/;

const page = () => location.origin + location.pathname;

// Copies a link; `id` where it is a library persona as it stands. Resolves with a sentence.
export async function copyLink(persona, id, standIn) {
  const link = id ? linkById(page(), id) : await linkTo(page(), shareable(persona, standIn));
  const note = OWN_VOICE.test(persona.voice) && !id ? t("Your own voice stays here: it names {other} instead.", { other: standIn }) : "";
  const box = part("link-box");
  try {
    await navigator.clipboard.writeText(link);
    box.hidden = true;
    return [t("The link is copied."), note].join(" ").trim();
  } catch {
    box.value = link;
    box.hidden = false;
    box.focus();
    box.select();
    return [t("This browser does not let the page copy: copy the link from the box."), note].join(" ").trim();
  }
}

// Saves a persona as a file; resolves with a sentence.
export async function exportFile(persona, standIn) {
  const { tags, author, licence } = persona;
  const more = Object.fromEntries(Object.entries({ tags, author, licence }).filter(([, value]) => value?.length));
  const name = slug(persona.title);
  const { yaml } = await post("library/yaml", { id: name, ...portable(shareable(persona, standIn)), ...more });
  const url = URL.createObjectURL(new Blob([yaml], { type: "application/yaml" }));
  make("a", { href: url, download: `${name}.yaml` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
  return t("Saved as {name}.yaml.", { name });
}

// The persona in a file.
export async function importFile(file) {
  if (file.size > MOST_FILE_BYTES) {
    const words = { name: file.name, most: MOST_FILE_BYTES / 1000 };
    throw new Error(t("{name} is no persona: it is larger than {most} kB.", words));
  }
  const { persona } = await post("library/persona", { yaml: await file.text(), name: file.name.slice(-100) });
  return persona;
}

// A voice of one's own is nobody else's to use: an official one takes its place.
function shareable(persona, standIn) {
  return OWN_VOICE.test(persona.voice) ? { ...persona, voice: standIn } : persona;
}
