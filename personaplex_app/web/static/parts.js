// Small parts that the page's sections share. Texts go in as text, never as HTML.

// An element with properties, `dataset` and `aria` among them, and children (elements or texts).
export function make(tag, { dataset, aria, ...properties } = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  Object.assign(element.dataset, dataset);
  for (const [name, value] of Object.entries(aria ?? {})) element.setAttribute(`aria-${name}`, value);
  element.append(...children);
  return element;
}

export const button = (text, run, properties = {}) => make("button", { type: "button", textContent: text, onclick: run, ...properties });

export const part = (id) => document.getElementById(id);

// A line for the visitor, at most with one thing to press; `bad` for what went wrong.
export function tell(id, sentence, { bad = false, does, run } = {}) {
  const line = part(id);
  line.classList.toggle("bad", bad);
  line.replaceChildren(...(sentence ? [make("span", { textContent: sentence })] : []));
  if (does) line.append(" ", button(does, () => { tell(id, ""); run(); }));
}

// Writes only what is new: a status that is written again may be read aloud again.
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// A bar that is filled so far, 0 to 1; `words` for those who hear it.
export function fillBar(bar, share, words) {
  const percent = Math.round(100 * Math.max(0, Math.min(1, share)));
  bar.firstElementChild.style.width = `${percent}%`;
  bar.setAttribute("aria-valuenow", percent);
  bar.setAttribute("aria-valuetext", words);
}
