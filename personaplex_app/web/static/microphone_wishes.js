// The switches of the microphone: echo cancellation, noise suppression, automatic gain; kept in this browser.
//
// In: ticks. Out: the microphone's wishes, a sentence. Must not know: how a microphone is opened.

import { t } from "./i18n.js";
import { WISHES, wish, wished } from "./microphone.js";
import { part, write } from "./parts.js";

const switches = () => document.querySelectorAll("#microphone [data-wish]");

async function take(box) {
  const talks = window.personaplex.state === "talking";
  const obeyed = await wish(box.dataset.wish, box.checked);
  const told = obeyed ? t("It holds now.") : t("This microphone cannot change it now: it holds from the next talk.");
  write(part("microphone-told"), talks ? told : "");
}

document.addEventListener("change", (event) => {
  if (WISHES.includes(event.target.dataset?.wish)) take(event.target);
});
while (!part("microphone")) await new Promise((resolve) => setTimeout(resolve, 50));
for (const box of switches()) box.checked = wished(box.dataset.wish);
