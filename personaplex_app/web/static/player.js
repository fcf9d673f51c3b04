// Plays one sound at a time, each with a button that starts and stops it.
//
// In: a button and the sound's address. Out: the button's words. What cannot be played goes to `onRefused(sentence)`.

import { t } from "./i18n.js";
import { asked } from "./wire.js";

const WORDS_OF = { idle: t("Listen"), loading: t("One moment"), playing: t("Stop") };
const MAKING_MS = 60_000; // a sound that nobody has heard yet is made first; the server says 503 meanwhile
const AGAIN_MS = 2_000;
const NOT_YET = 503;

export class Player {
  constructor({ onRefused }) {
    this.onRefused = onRefused;
    this.sound = null;
    this.pressed = null;
    this.loading = null;
  }

  async press(button, path) {
    const again = button === this.pressed;
    this.stop();
    if (again) return;
    this.pressed = button;
    this.loading = new AbortController();
    const { signal } = this.loading;
    become(button, "loading");
    try {
      await this.play(button, await fetched(path, signal), signal);
    } catch (error) {
      if (signal.aborted) return;
      this.stop();
      this.onRefused(error.message);
    }
  }

  async play(button, blob, signal) {
    if (signal.aborted) return;
    const sound = (this.sound = new Audio(URL.createObjectURL(blob)));
    sound.onended = () => this.sound === sound && this.stop();
    await sound.play();
    if (!signal.aborted) become(button, "playing");
  }

  stop() {
    this.loading?.abort();
    if (this.sound) {
      this.sound.pause();
      URL.revokeObjectURL(this.sound.src);
    }
    if (this.pressed) become(this.pressed, "idle");
    this.sound = this.pressed = this.loading = null;
  }
}

async function fetched(path, signal) {
  for (const began = performance.now(); ; ) {
    try {
      return await (await asked(path, { signal })).blob();
    } catch (error) {
      if (error.status !== NOT_YET || performance.now() - began > MAKING_MS) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    signal.throwIfAborted();
  }
}

function become(button, state) {
  button.dataset.state = state;
  button.textContent = WORDS_OF[state];
}
