// English sentences found again by the templates that they were made from, and said in another language. Pure.
// `web/languages.py` does the same on the server; tests hold the two together.
//
// In: known sentences and templates ("You are number {place} in the line."), a text. Out: the text, as far as its
// sentences are known. Must not know: the page.

const ENDS = /((?<=[.!?:…*`)。！？])\s+|\n+)/; // what may stand between two sentences
const MOST_SENTENCES = 30; // that are looked at
const MOST_JOINED = 12; // pieces that one template may span
const DEEPEST = 3; // values within values
const FEW_LETTERS = 4; // a template with fewer of its own, such as `{seconds} min`, takes figures only
const MOST_KEPT = 500;

export class Sentences {
  // exact: {english: other}. templates: those of them that are looked for with values in them.
  constructor(exact, templates, language) {
    this.exact = new Map(Object.entries(exact));
    this.templates = Object.entries(templates).filter(([key]) => /\{\w+\}/.test(key)).map(template).sort((a, b) => b.weight - a.weight);
    this.tight = language === "zh"; // no space between two sentences
    this.known = new Map();
  }

  translated(text, depth = 0) {
    return this.phrase(text, depth) ?? this.joined(text, depth);
  }

  // One sentence, or several that one template holds; null where nobody knows it.
  phrase(text, depth) {
    if (this.exact.has(text)) return this.exact.get(text);
    if (!this.known.has(text)) {
      if (this.known.size >= MOST_KEPT) this.known.clear();
      this.known.set(text, this.found(text, depth));
    }
    return this.known.get(text);
  }

  found(text, depth) {
    for (const { pattern, names, other } of this.templates) {
      const match = pattern.exec(text);
      if (!match) continue;
      return other.replace(/\{(\w+)\}/g, (whole, name) => this.value(match[1 + names.indexOf(name)], depth));
    }
    return null;
  }

  // A value may be a sentence itself, or a part of one with a space before it.
  value(value, depth) {
    const bare = value.trim();
    if (!bare || depth >= DEEPEST) return value;
    return value.replace(bare, () => this.translated(bare, depth + 1));
  }

  // Sentence after sentence, the longest that are known first.
  joined(text, depth) {
    const pieces = text.split(ENDS); // sentence, space, sentence, ...
    if (pieces.length > 2 * MOST_SENTENCES) return text;
    let said = "";
    for (let at = 0; at < pieces.length; ) {
      let end = Math.min(pieces.length, at + 2 * MOST_JOINED - 1);
      let other = null;
      for (; end > at; end -= 2) {
        other = end - at === pieces.length ? null : this.phrase(pieces.slice(at, end).join(""), depth);
        if (other !== null) break;
      }
      if (other === null) end = at + 1;
      said += other ?? pieces[at];
      if (end < pieces.length) said += this.tight && /[。！？]$/.test(said) && pieces[end] === " " ? "" : pieces[end];
      at = end + 1;
    }
    return said;
  }
}

function template([key, other]) {
  const pieces = key.split(/\{(\w+)\}/); // text, name, text, ...
  const own = pieces.filter((_, index) => index % 2 === 0);
  const value = own.join("").replace(/\P{L}/gu, "").length >= FEW_LETTERS ? "(.*?)" : "([\\d.,]+)";
  const pattern = own.map((piece) => piece.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join(value);
  const names = pieces.filter((_, index) => index % 2 === 1);
  return { pattern: new RegExp(`^${pattern}$`, "u"), names, other, weight: own.join("").length };
}
