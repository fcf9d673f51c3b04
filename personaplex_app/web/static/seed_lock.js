// "Lock seed": while it is ticked, the seed box holds the seed that the last talk had; unticked, it is emptied.
//
// In: `seed` of the `talk` messages, what the seed box holds. Out: a filled box; `lastSeed`, `lockedSeed` for whoever asks.
// Must not know: sampling, how a talk is asked for.

import { fill, onValues, values } from "./fields.js";

let last = ""; // of the last talk, as text: it may be larger than a number can hold

export const lastSeed = () => last;
// What an empty seed box stands for: it may be filled a moment after a persona's card has emptied it.
export const lockedSeed = () => (lock()?.checked ? last : "");

const lock = () => document.getElementById("lock-seed");
const writing = () => Boolean(document.activeElement?.closest?.("#seed"));
const put = (seed) => fill({ seed }).catch((error) => console.warn(error.message));

function hold() {
  if (lock()?.checked && last && values() && values().seed !== last) put(last);
}

document.addEventListener("personaplex-message", ({ detail }) => {
  if (detail.type !== "talk" || !detail.seed || detail.seed === last) return;
  last = detail.seed;
  hold();
});
document.addEventListener("change", (event) => {
  if (event.target.id !== "lock-seed") return;
  if (event.target.checked) hold();
  else put("");
});
// Another seed may be written while it is locked: that one stays. A persona's card, which empties the box, does not.
onValues((held) => {
  if (held.seed === "" && !writing()) hold();
});
document.addEventListener("focusout", (event) => {
  if (event.target.closest?.("#seed") && values()?.seed === "" && lock()) lock().checked = false;
});
