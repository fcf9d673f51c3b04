// What the page says by itself, where no sentence comes from the server.

export const WORDS = {
  insecure: "Microphones work on https pages and on localhost only. Open this page by its https address.",
  denied: "The microphone was refused. Allow it beside the page's address, then press Talk again.",
  none: "No microphone was found. Connect one and press Talk again.",
  taken: "The microphone is used by another program. Close that and press Talk again.",
  framed: "This page stands in a frame that may not use the microphone. Open it in a window of its own.",
  connecting: "Connecting ...",
  moving: "WebRTC does not connect from here. Moving to the socket ...",
  back: "The connection was lost. Going back to your talk ...",
  gone: "The connection to the server was lost.",
  unreachable: "The server cannot be reached. Try again in a moment.",
  microphone: "The microphone could not be used",
};

export const BUTTONS = { idle: "Talk", busy: "Cancel", waiting: "Leave the line", turn: "Answer", talking: "Stop" };

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
  return known ? WORDS[known] : `${WORDS.microphone}: ${error.message}`;
}

function framePermits() {
  const policy = document.featurePolicy;
  return policy && policy.allowsFeature ? policy.allowsFeature("microphone") : true;
}
