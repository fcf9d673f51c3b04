// What the figures of a talk say, in plain sentences and in rows.
//
// In: the `figures` and `marks` of the server's message `xray`. Out: texts. Must not know: the page.

import { t } from "./i18n.js";

const tenths = (number) => Math.round(10 * number) / 10;

// "3.4 s" or "2 min 5 s".
export function length(seconds) {
  if (seconds === null) return "–";
  if (seconds < 60) return t("{seconds} s", { seconds: tenths(seconds) });
  const whole = Math.round(seconds);
  return t("{minutes} min {seconds} s", { minutes: Math.floor(whole / 60), seconds: whole % 60 });
}

export function sentences({ figures: { you, persona, both }, marks }) {
  if (!you.talk_seconds && !persona.talk_seconds) return [t("Nobody spoke in this talk.")];
  const said = [
    t("You talked for {you}, the persona for {persona}: {share} % of the talking was yours.", {
      you: length(you.talk_seconds), persona: length(persona.talk_seconds), share: Math.round(100 * you.talk_share),
    }),
    answers(persona.gaps),
    you.interruptions
      ? t("Interruptions by you: {count}; the persona gave way in {yielded} of them.", { count: you.interruptions, yielded: you.other_yielded })
      : t("You did not interrupt the persona."),
    persona.interruptions
      ? t("Interruptions by the persona: {count}; you gave way in {yielded} of them.", { count: persona.interruptions, yielded: persona.other_yielded })
      : t("The persona did not interrupt you."),
    t("Both spoke at once for {overlap}; nobody spoke for {silence}, {longest} at a stretch.", {
      overlap: length(both.overlap_seconds), silence: length(both.silence_seconds), longest: length(both.longest_silence_seconds),
    }),
  ];
  if (marks.some((mark) => mark.kind === "echo")) {
    said.push(t("The persona heard itself for a while: what stands here for you may hold its voice."));
  }
  return said;
}

function answers({ count, median_seconds: median, p90_seconds: p90, longest_seconds: longest }) {
  if (!count) return t("The persona never waited for the end of what you said, or did not answer it.");
  return t("Answers of the persona: {count}; usually after {median}, nine of ten within {p90}, the slowest after {longest}.", {
    count, median: length(median), p90: length(p90), longest: length(longest),
  });
}

// A label and a text for each side.
export function rows({ you, persona }) {
  const of = (text) => [text(you), text(persona)];
  return [
    [t("Talked"), ...of((side) => length(side.talk_seconds))],
    [t("Share of the talking"), ...of((side) => t("{share} %", { share: Math.round(100 * side.talk_share) }))],
    [t("Turns"), ...of((side) => String(side.turns))],
    [t("Longest turn"), ...of((side) => length(side.longest_turn_seconds))],
    [t("Answers after a pause"), ...of((side) => String(side.gaps.count))],
    [t("Answer: middle"), ...of((side) => length(side.gaps.median_seconds))],
    [t("Answer: nine of ten within"), ...of((side) => length(side.gaps.p90_seconds))],
    [t("Answer: longest"), ...of((side) => length(side.gaps.longest_seconds))],
    [t("Interrupted the other"), ...of((side) => String(side.interruptions))],
    [t("The other gave way"), ...of((side) => String(side.other_yielded))],
    [t("Listening sounds"), ...of((side) => String(side.backchannels))],
    [t("Loudness"), ...of((side) => (side.loudness_dbfs === null ? "–" : t("{level} dBFS", { level: tenths(side.loudness_dbfs) })))],
  ];
}

export function markWords({ kind, by, yielded, action }) {
  if (kind === "echo") return action === "began" ? t("The persona begins to hear itself.") : t("The persona no longer hears itself.");
  if (kind === "guard") return action === "put_back" ? t("The loop guard puts your sampling back.") : t("The loop guard notices something.");
  if (by === "you") return yielded === "persona" ? t("You interrupt; the persona gives way.") : t("You interrupt, and give way.");
  return yielded === "you" ? t("The persona interrupts; you give way.") : t("The persona interrupts, and gives way.");
}
