// What is wrong with a talk, if anything: this GPU, the visitor's network, or the browser and its microphone. Pure.
//
// In: figures of the last seconds (figures.js); null is what nobody knows. Out: {who, what, ...numbers}; `who` is "well",
// "gpu", "network" or "browser". Every threshold stands here. Must not know: the page, words, where figures come from.

export const FRAME_MS = 80;
export const LIMITS = {
  loss: 0.03, // of the sound's packets, either way
  round_trip_ms: 400,
  unsent_ms: 200, // sound that waits in the browser because the network does not take it
  gaps: 0.06, // of what was played: silence or made-up sound, while the server spoke in time
  unheard: 0.08, // of the frames: silence, because nothing came from here in time
  overrun: 0.05, // of the frames that came: left out, because the model was not there for them
  strained_ms: 60, // a step that leaves no room for one that takes longer
  held_ms: 1800, // between two looks, which are a second apart where the page is not held up
  made: 0.9, // of the frames that were due; fewer came out of the model
  given: 0.85, // of the sound that a microphone gives
  silent_ms: 4000, // since the server last said anything
};
const AGAIN = 0.7; // a trouble that is told is over only where it is clearly so
const BEFORE_TOLD = 3; // so many looks in a row say the same before it is told
const BEFORE_WELL = 5; // and so many before all is called well again

// What these figures say; `before` is the trouble that is told at present.
export function judge(figures, before = { who: "well", what: "well" }) {
  const tests = [microphone, awake, silence, engine, loss, unsent, behind, roundTrip, given, held, unheard, gaps];
  for (const test of tests) {
    const found = test(figures, (what) => (before.what === what ? AGAIN : 1));
    if (found) return found;
  }
  return { who: "well", what: "well" };
}

// What only the browser can be to blame for.

function microphone({ microphone }) {
  return ["muted", "ended"].includes(microphone) && { who: "browser", what: `microphone_${microphone}` };
}

function awake({ awake }) {
  return awake === false && { who: "browser", what: "asleep" };
}

function silence({ silent_ms }) {
  return silent_ms > LIMITS.silent_ms && { who: "network", what: "silent", seconds: Math.round(silent_ms / 1000) };
}

// A step is the server's own: no network makes it longer.
function engine({ step_ms, stalled }, times) {
  if (stalled) return { who: "gpu", what: "stalled" };
  const limit = FRAME_MS * (times("slow") < 1 ? 0.95 : 1);
  return step_ms > limit && { who: "gpu", what: "slow", ms: Math.round(step_ms) };
}

// What only the way can be to blame for.

function loss({ lost_up, lost_down }, times) {
  const share = Math.max(lost_up ?? 0, lost_down ?? 0);
  return share > LIMITS.loss * times("loss") && { who: "network", what: "loss", percent: Math.round(100 * share) };
}

function unsent({ unsent_ms }, times) {
  return unsent_ms > LIMITS.unsent_ms * times("unsent") && { who: "network", what: "unsent", ms: Math.round(unsent_ms) };
}

// A network that holds sound back makes the model hear silence first, then has too much come at once: what is made stays
// whole. A server that is behind leaves out what it was brought, and makes so much less.
function behind({ step_ms, overrun, unheard, made }, times) {
  if (!(overrun > LIMITS.overrun * times("behind"))) return null;
  const missing = overrun > (unheard ?? 0) && (made ?? 1) < 1 - overrun / 2;
  return (missing || step_ms > LIMITS.strained_ms) && { who: "gpu", what: "behind", ms: Math.round(step_ms) };
}

function roundTrip({ round_trip_ms }, times) {
  const late = round_trip_ms > LIMITS.round_trip_ms * times("round_trip");
  return late && { who: "network", what: "round_trip", ms: Math.round(round_trip_ms) };
}

// What several could be to blame for; those above are cleared by now.

function given({ given }, times) {
  if (given === null || given >= 1 - (1 - LIMITS.given) * times("given")) return null;
  return { who: "browser", what: "given", percent: Math.round(100 * given) };
}

// A page that stood still passes no sound on, whatever the network brings.
function held({ held_ms, ...others }, times) {
  const uneven = held_ms > LIMITS.held_ms && (unheard(others, times) || gaps(others, times) || times("held") < 1);
  return uneven && { who: "browser", what: "held" };
}

function unheard({ unheard, made }, times) {
  const missing = Math.max(unheard ?? 0, made === null ? 0 : (1 - made) * (LIMITS.unheard / (1 - LIMITS.made)));
  return missing > LIMITS.unheard * times("unheard") && { who: "network", what: "unheard" };
}

function gaps({ gaps }, times) {
  return gaps > LIMITS.gaps * times("gaps") && { who: "network", what: "gaps", percent: Math.round(100 * gaps) };
}

// Verdicts one after another, without flapping: a new one is told once it has stood for some looks.
export class Verdicts {
  constructor() {
    this.told = null; // nothing yet
    this.other = null;
    this.looks = 0;
  }

  // What is to be told now; null as long as there is nothing to tell.
  saw(figures) {
    const found = judge(figures, this.told ?? undefined);
    if (this.told?.what === found.what) {
      this.told = found; // with its numbers of now
      this.other = null;
      return this.told;
    }
    this.looks = this.other?.what === found.what ? this.looks + 1 : 1;
    this.other = found;
    if (this.looks >= looksBefore(found, this.told)) [this.told, this.other] = [found, null];
    return this.told;
  }
}

function looksBefore({ who }, told) {
  if (who !== "well") return BEFORE_TOLD;
  return told ? BEFORE_WELL : 1;
}
