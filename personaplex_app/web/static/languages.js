// The choice of a language. The page is loaded anew in it, with what its boxes hold; a talk must be over before.
//
// In: presses. Out: the page in another language. Must not know: words.

import { choose, language, t } from "./i18n.js";

const buttons = () => document.querySelectorAll("#languages button");

function show() {
  const talks = (window.personaplex?.state ?? "idle") !== "idle";
  for (const button of buttons()) {
    button.setAttribute("aria-pressed", button.dataset.language === language);
    button.disabled = talks;
    button.title = talks ? t("Stop the talk first: the page is loaded anew.") : "";
  }
}

document.addEventListener("click", (event) => {
  const chosen = event.target.closest?.("#languages button")?.dataset.language;
  if (chosen && chosen !== language) choose(chosen);
});
document.addEventListener("personaplex-state", show);
const until = setInterval(() => {
  if (!buttons().length) return;
  clearInterval(until);
  show();
}, 50);
