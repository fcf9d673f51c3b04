"""Texts that are too pale to be read: whose colour stands at less than 4.5 : 1 on what is behind it (WCAG 2.1, AA)."""

from __future__ import annotations

# In the page: a list of what is too pale, with its ratio. What is disabled, hidden or gradio's own foot is left out.
TOO_PALE = r"""
() => {
  const parse = (color) => {
    const numbers = color.match(/[\d.]+/g).map(Number);
    const scale = color.startsWith("color(") ? 255 : 1;
    return [...numbers.slice(0, 3).map((one) => one * scale), numbers[3] ?? 1];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const part = (value) => (value <= 10 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  const parents = (element) => (element ? [element, ...parents(element.parentElement)] : []);
  const ground = (element) => parents(element)
    .map((one) => parse(getComputedStyle(one).backgroundColor))
    .reverse()
    .reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  const ratio = (element) => {
    const behind = ground(element);
    const color = parse(getComputedStyle(element).color);
    const opacity = parents(element).reduce((all, one) => all * Number(getComputedStyle(one).opacity), 1);
    const seen = over([...color.slice(0, 3), color[3] * opacity], behind);
    const [more, less] = [light(seen), light(behind)].sort((one, other) => other - one);
    return (more + 0.05) / (less + 0.05);
  };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const elements = new Set();
  while (walk.nextNode()) if (walk.currentNode.textContent.trim()) elements.add(walk.currentNode.parentElement);
  return [...elements]
    .filter((one) => one.checkVisibility({ opacityProperty: true, visibilityProperty: true }))
    .filter((one) => !one.closest("footer, script, style, :disabled, .for-readers"))
    .filter((one) => ratio(one) < 4.5)
    .map((one) => `${ratio(one).toFixed(2)} ${one.tagName}#${one.id} ${one.textContent.trim().slice(0, 40)}`);
}
"""
