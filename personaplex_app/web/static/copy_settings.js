// "Copy settings": all that a talk is asked with, and the seed that the last one had, as JSON.
//
// In: the Call's choices. Out: the clipboard, or a box to copy from where that refuses. Must not know: the boxes.

import { t } from "./i18n.js";
import { part, tell } from "./parts.js";
import { lastSeed } from "./seed_lock.js";

async function copy() {
  const settings = { choices: window.personaplex.choices(), applied_seed: lastSeed() || null };
  const text = JSON.stringify(settings, null, 2);
  const box = part("settings-box");
  try {
    await navigator.clipboard.writeText(text);
    box.hidden = true;
    tell("settings-told", t("The settings are copied."));
  } catch {
    box.value = text;
    box.hidden = false;
    box.focus();
    box.select();
    tell("settings-told", t("This browser does not let the page copy: copy the settings from the box."));
  }
}

document.addEventListener("click", (event) => {
  if (event.target.closest?.("#copy-settings")) copy();
});
