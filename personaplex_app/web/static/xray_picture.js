// The picture of a talk: you above, the persona below, line after line like writing, with marks where something happened.
//
// In: the server's message `xray`. Out: an SVG element; the same as a file that needs no page. Must not know: the page.

import { t } from "./i18n.js";
import { markWords } from "./xray_words.js";
import { clock } from "./turns.js";

const SVG = "http://www.w3.org/2000/svg";
const LEFT = 44;
const BAR = 14;
const LINE = 62;
const TOP = { you: 14, persona: 30 };
const LINE_SECONDS = [15, 30, 60, 120, 300, 600];
const NARROW = 500; // such a picture has twice as many lines
const MOST_LINES = 30;
const STYLE = `text { font: 11px system-ui, sans-serif; fill: #374151 } .ground { fill: #fff } .rail { fill: #e5e7eb } .tick { stroke: #d1d5db }
.you { fill: #0f766e } .persona { fill: #4f46e5 } .interruption { fill: #b45309 } .guard { fill: #be123c }`;

export function picture(message, summary, width = 720) {
  const seconds = Math.max(1, message.seconds);
  const each = lineSeconds(seconds, width < NARROW ? 2 : 1);
  const lines = Math.ceil(seconds / each);
  const height = lines * LINE + 4;
  const svg = node("svg", { xmlns: SVG, viewBox: `0 0 ${width} ${height}`, width, height, role: "img", class: "talk-picture" });
  svg.append(titled("title", t("Who spoke when: you above, the persona below.")), titled("desc", summary.join(" ")));
  svg.append(node("rect", { class: "ground", width, height }));
  const scale = { each, perSecond: (width - LEFT - 8) / each };
  for (let line = 0; line < lines; line += 1) svg.append(...rails(line, scale, seconds));
  for (const side of ["you", "persona"]) {
    for (const [start, end] of message.segments[side]) svg.append(...bars(side, start, end, scale));
  }
  for (const mark of message.marks) svg.append(flag(mark, scale));
  return svg;
}

// One line for up to 30 s, then lines of 30 s or a minute, longer ones where there would be too many.
function lineSeconds(seconds, more) {
  if (seconds <= 30) return seconds <= 15 ? 15 : 30;
  return LINE_SECONDS.find((each) => each * more >= 60 && seconds / each <= MOST_LINES * more) ?? LINE_SECONDS.at(-1);
}

// As text, with its colours inside.
export function file(svg) {
  svg.prepend(titled("style", STYLE));
  return new XMLSerializer().serializeToString(svg);
}

function rails(line, { each, perSecond }, seconds) {
  const y = line * LINE;
  const width = Math.min(each, seconds - line * each) * perSecond;
  const found = [titled("text", clock(line * each), { x: 4, y: y + TOP.you + 20 })];
  for (const side of ["you", "persona"]) found.push(node("rect", { class: "rail", x: LEFT, y: y + TOP[side], width, height: BAR }));
  for (let step = each / 6; step < each; step += each / 6) {
    const x = LEFT + step * perSecond;
    if (x < LEFT + width) found.push(node("line", { class: "tick", x1: x, x2: x, y1: y + TOP.you - 2, y2: y + TOP.persona + BAR + 2 }));
  }
  return found;
}

// A stretch of speech may go over the end of a line.
function bars(side, start, end, { each, perSecond }) {
  const found = [];
  for (let line = Math.floor(start / each); line * each < end; line += 1) {
    const from = Math.max(start, line * each) - line * each;
    const to = Math.min(end, (line + 1) * each) - line * each;
    const width = Math.max(1, (to - from) * perSecond);
    found.push(node("rect", { class: side, x: (LEFT + from * perSecond).toFixed(1), y: line * LINE + TOP[side], width: width.toFixed(1), height: BAR, rx: 2 }));
  }
  return found;
}

// A triangle that points at the bar it is about; guards stand below.
function flag(mark, { each, perSecond }) {
  const line = Math.floor(mark.second / each);
  const x = LEFT + (mark.second - line * each) * perSecond;
  const above = mark.kind === "interruption" && mark.by === "you";
  const tip = line * LINE + (above ? TOP.you - 1 : TOP.persona + BAR + 1);
  const base = tip + (above ? -10 : 10);
  const kind = mark.kind === "interruption" ? "interruption" : "guard";
  const points = kind === "guard"
    ? `${x},${tip} ${x + 5},${tip + 6} ${x},${tip + 12} ${x - 5},${tip + 6}`
    : `${x},${tip} ${x - 5},${base} ${x + 5},${base}`;
  const shape = node("polygon", { class: kind, points });
  shape.append(titled("title", `${clock(mark.second)} ${markWords(mark)}`));
  return shape;
}

function node(name, attributes = {}) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function titled(name, text, attributes = {}) {
  const made = node(name, attributes);
  made.textContent = text;
  return made;
}
