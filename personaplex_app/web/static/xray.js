// The X-ray of a talk, shown when it is over; and the echo guard's warning while it runs.
//
// In: the server's messages `xray` and `echo`, the call's states. Out: the section #xray, two files. Must not know: how
// figures come about (docs/protocol.md tells).

import { t, translated } from "./i18n.js";
import { make, part } from "./parts.js";
import { file, picture } from "./xray_picture.js";
import { rows, sentences } from "./xray_words.js";

let found = null; // what the server told last, until the next talk
let state = "idle";

function show() {
  const section = part("xray");
  section.hidden = !found || state !== "idle";
  if (section.hidden) return;
  const summary = sentences(found);
  part("xray-summary").replaceChildren(...summary.map((textContent) => make("li", { textContent })));
  const frame = part("xray-picture");
  frame.replaceChildren(picture(found, summary, Math.max(300, frame.clientWidth)));
  part("xray-figures").replaceChildren(...rows(found.figures).map(([label, ...values]) =>
    make("tr", {}, make("th", { scope: "row", textContent: label }), ...values.map((textContent) => make("td", { textContent })))));
}

function close() {
  found = null;
  show();
  part("talk-button").focus();
}

function save(text, type, name) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

const PRESSED = {
  "xray-close": close,
  "xray-save-picture": () => save(file(picture(found, sentences(found))), "image/svg+xml", "talk.svg"),
  "xray-save-figures": () => save(JSON.stringify(found, null, 2), "application/json", "talk-figures.json"),
};

const TAKEN = {
  xray: (message) => { found = message; show(); },
  echo: ({ action, sentence }) => warnOfEcho(action === "began" ? sentence : ""),
  started_over: () => warnOfEcho(""),
};

function warnOfEcho(sentence) {
  const call = window.personaplex;
  call.warn({ ...call.warnings, echo: translated(sentence) });
}

document.addEventListener("personaplex-message", ({ detail }) => TAKEN[detail.type]?.(detail));
document.addEventListener("personaplex-state", ({ detail }) => {
  state = detail;
  if (state !== "idle") found = null;
  if (part("xray")) show();
});
document.addEventListener("click", ({ target }) => PRESSED[target.closest("#xray button")?.id]?.());
