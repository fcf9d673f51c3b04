// Sampling in three flavours: each button fills the boxes, and is pressed when they hold exactly that.
//
// In: the presets of page.py. Out: filled boxes. Must not know: what the values mean.

import { fill, onValues, values } from "./fields.js";
import { part, tell } from "./parts.js";

const presets = window.personaplexConfig.presets;
const buttons = () => document.querySelectorAll("#presets [data-preset]");

function mark(held) {
  for (const button of buttons()) {
    const wanted = Object.entries(presets[button.dataset.preset]);
    button.setAttribute("aria-pressed", held !== null && wanted.every(([name, value]) => held[name] === value));
  }
}

document.addEventListener("click", async (event) => {
  const name = event.target.closest?.("#presets [data-preset]")?.dataset.preset;
  if (!name) return;
  try {
    await fill(presets[name]);
    tell("presets-told", "");
  } catch (error) {
    tell("presets-told", error.message, { bad: true });
  }
});
onValues(mark);
while (!part("presets")) await new Promise((resolve) => setTimeout(resolve, 50));
mark(values());
