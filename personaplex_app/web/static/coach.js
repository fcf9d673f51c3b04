// The persona coach: what the prompt takes, whether the model was trained on its shape, and a form that writes one.
//
// In: the prompt and the voice as the boxes hold them. Out: words below the box; a new prompt by `onPrompt(text)`.
// Counts are the server's alone. Must not know: personas, the gallery.

import { onValues, values } from "./fields.js";
import { t, translated } from "./i18n.js";
import { fillBar, part, tell, write } from "./parts.js";
import { post } from "./wire.js";

const PAUSE_MS = 300;
const MAKE_IT = { assistant: t("Make it an assistant"), service: t("Make it a service desk"), casual: t("Make it a talker") };

export class Coach {
  constructor({ onPrompt }) {
    this.onPrompt = onPrompt;
    this.asked = "";
    this.asking = null;
    this.nearest = null; // the shape to begin from: {shape, template, desk}
    part("coach-nearest").onclick = () => this.takeNearest();
    part("desk-form").onsubmit = (event) => { event.preventDefault(); this.writeDesk(); };
    onValues(() => this.soon());
    this.soon(0);
  }

  soon(pauseMs = PAUSE_MS) {
    const held = values();
    if (!held || this.asked === keyOf(held)) return;
    this.asked = keyOf(held);
    clearTimeout(this.later);
    this.later = setTimeout(() => this.ask(held), pauseMs);
  }

  async ask({ prompt, voice }) {
    this.asking?.abort();
    const { signal } = (this.asking = new AbortController());
    try {
      this.show(await post("library/coach", { prompt, voice }, { signal }));
    } catch (error) {
      if (signal.aborted) return;
      this.asked = "";
      this.showRefusal(error.message);
    }
  }

  show({ tokens, seconds, share, most_share: most, fits, shape, sentence, nearest }) {
    const known = tokens !== null;
    const words = known ? lengthWords(tokens, seconds, share) : "";
    write(part("coach-words"), known ? t("{words} (at most {most})", { words, most: percent(most) }) : "");
    fillBar(part("coach-meter"), known ? share / most : 0, words || t("unknown"));
    write(part("coach-sentence"), translated(sentence));
    Object.assign(part("coach").dataset, { fits: fits !== false, shape });
    this.nearest = nearest;
    const offer = part("coach-nearest");
    offer.hidden = !nearest;
    write(offer, nearest ? MAKE_IT[nearest.shape] : "");
  }

  showRefusal(sentence) {
    write(part("coach-words"), "");
    write(part("coach-sentence"), sentence);
    part("coach").dataset.fits = false;
    part("coach-nearest").hidden = true;
    fillBar(part("coach-meter"), 0, t("unknown"));
  }

  async takeNearest() {
    const { template, desk } = this.nearest;
    if (desk) {
      for (const [name, text] of Object.entries(desk)) part("desk-form").elements[name].value = text;
      part("desk").open = true;
    }
    await this.attempt(() => this.onPrompt(template));
  }

  async writeDesk() {
    const form = part("desk-form");
    tell("desk-told", "");
    await this.attempt(async () => {
      const { prompt } = await post("library/desk", Object.fromEntries(new FormData(form)));
      await this.onPrompt(prompt);
      tell("desk-told", t("It stands in the prompt."));
    });
  }

  async attempt(run) {
    try {
      await run();
    } catch (error) {
      tell("desk-told", error.message, { bad: true });
    }
  }
}

const keyOf = ({ prompt, voice }) => JSON.stringify([prompt, voice]);

function lengthWords(tokens, seconds, share) {
  const values = { tokens, seconds: seconds.toFixed(1), share: percent(share) };
  if (tokens === 1) return t("1 token · {seconds} s · {share} of the window", values);
  return t("{tokens} tokens · {seconds} s · {share} of the window", values);
}

function percent(share) {
  const hundredths = 100 * share;
  return `${hundredths < 10 ? hundredths.toFixed(1) : Math.round(hundredths)} %`;
}
