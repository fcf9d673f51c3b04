// What the page says by itself, where no sentence comes from the server.

import { t, translated } from "./i18n.js";

export const WORDS = {
  insecure: t("Microphones work on https pages and on localhost only. Open this page by its https address."),
  denied: t("The microphone was refused. Allow it beside the page's address, then press Talk again."),
  none: t("No microphone was found. Connect one and press Talk again."),
  taken: t("The microphone is used by another program. Close that and press Talk again."),
  framed: t("This page stands in a frame that may not use the microphone. Open it in a window of its own."),
  connecting: t("Connecting ..."),
  moving: t("WebRTC does not connect from here. Moving to the socket ..."),
  left: t("You left the line."),
  cancelled: t("You stopped before the talk began."),
  back: t("The connection was lost. Going back to your talk ..."),
  gone: t("The connection to the server was lost."),
  unplugged: t("Your microphone is gone, unplugged or taken by another program, and no other was found. Connect one and press Talk again."),
  another: t("Your microphone is gone; another one is used now."),
  silent: t("Nothing is heard from your microphone. See that it is not switched off, and that the browser uses the right one."),
  asleep: t("The browser holds the sound back. Press any key or click anywhere on this page."),
  unreachable: t("The server cannot be reached. Try again in a moment."),
};

export const BUTTONS = {
  idle: t("Talk"),
  busy: t("Cancel"),
  waiting: t("Leave the line"),
  turn: t("Answer"),
  talking: t("Stop"),
};

export const PATHS = {
  direct: t("Path of the sound: direct (WebRTC)."),
  relay: t("Path of the sound: through a relay (WebRTC over TURN)."),
  socket: t("Path of the sound: the socket."),
};

// Why a talk is over, by the server's sentence.
export const ended = (sentence) => t("Ended: {sentence}", { sentence: translated(sentence) });

const BY_NAME = {
  NotAllowedError: "denied",
  SecurityError: "denied",
  NotFoundError: "none",
  OverconstrainedError: "none",
  NotReadableError: "taken",
  AbortError: "taken",
};

// A sentence for an error of getUserMedia.
export function microphoneWords(error) {
  if (error.name === "NotAllowedError" && window.self !== window.top && !framePermits()) return WORDS.framed;
  const known = BY_NAME[error.name];
  return known ? WORDS[known] : t("The microphone could not be used: {reason}", { reason: error.message });
}

function framePermits() {
  const policy = document.featurePolicy;
  return policy && policy.allowsFeature ? policy.allowsFeature("microphone") : true;
}
