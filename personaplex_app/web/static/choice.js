// Who is chosen, what the visitor has changed since, and what was there before: the link between a persona and the boxes.
//
// A choice: {kind, key, persona}; kinds are "library", "own" (kept in this browser) and "guest" (from a link or a file).
// Tells of itself by `onChange(choice)`, also when the boxes change. Must not know: cards, storage, links.

import { fill, onValues, values } from "./fields.js";
import { isSame, valuesOf, withValues } from "./persona.js";

export class Choice {
  // voices(): the names that can be chosen now. standIn(): the one that speaks where a persona's is not among them.
  constructor({ voices, standIn, onChange }) {
    Object.assign(this, { voices, standIn, onChange });
    this.current = null;
    this.before = null; // {choice, values}: edits that a new choice has put aside
    this.filling = 0; // of the boxes, how many times at once
    onValues(() => this.onChange(this.current));
  }

  // The name of a voice that is to be had here.
  voiceFor(persona) {
    return this.voices().includes(persona.voice) ? persona.voice : this.standIn();
  }

  get edited() {
    const held = values();
    if (!this.current || !held || this.filling) return false;
    return !isSame(this.current.persona, this.voiceFor(this.current.persona), held);
  }

  // The chosen persona with what the boxes hold.
  now() {
    return withValues(this.current.persona, values());
  }

  // Chooses and fills the boxes; returns whether edits were put aside.
  async take(choice) {
    const edits = this.edited ? { choice: this.current, values: { ...values() } } : null;
    await this.become(choice, valuesOf(choice.persona, this.voiceFor(choice.persona)));
    this.before = edits;
    return edits !== null;
  }

  async become(choice, held) {
    this.filling += 1;
    this.name(choice);
    try {
      await fill(held);
    } finally {
      this.filling -= 1;
      this.onChange(this.current);
    }
  }

  // The same boxes belong to this choice from now on: what they hold was kept, or is what the page began with.
  name(choice) {
    this.current = choice;
    this.onChange(choice);
  }

  // Back to the edits that were put aside.
  async bringBack() {
    const { choice, values: held } = this.before;
    this.before = null;
    await this.become(choice, held);
  }
}
