// The page's words in the visitor's language. The English sentence is the key; `{name}` stands for a value.
//
// In: an English sentence and its values. Out: the sentence in the page's language. Must not know: who says it.

// A sentence with its values in their places.
export function t(english, values = {}) {
  return filled(english, values);
}

function filled(sentence, values) {
  return sentence.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}
