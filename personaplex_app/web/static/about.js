// The chosen persona beside the Talk button: who it is, whether the visitor has changed it, three things to ask.

import { make, part, write } from "./parts.js";

export function showAbout({ persona }, edited) {
  write(part("about-title"), persona.title);
  write(part("about-pitch"), persona.pitch);
  part("about-edited").hidden = !edited;
  part("ask-title").hidden = !persona.ask.length;
  const shown = [...part("ask").children].map((item) => item.textContent);
  if (JSON.stringify(shown) === JSON.stringify(persona.ask)) return;
  part("ask").replaceChildren(...persona.ask.map((question) => make("li", { textContent: question })));
}
