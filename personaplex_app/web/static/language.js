// Which language the page speaks: the visitor's choice, else the first of the browser's languages that we have, else
// English. A plain script in the page's head: it runs before gradio draws and before any module of ours.
//
// The first page (starting.html) has it too, and its few words in itself.
// Out: <html lang>, `window.personaplexLanguage` (en, zh, ko), `window.personaplexTable` (the words, on their way).
// Gradio looks at `navigator.language` alone and knows no zh-HK: it is shown the language that we have chosen.
"use strict";
{
  const TAGS = { en: "en", zh: "zh-CN", ko: "ko" };
  const KEY = "personaplex-language";
  const kept = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // this browser lets the page store nothing
    }
  };
  const wishes = [kept(), ...(navigator.languages ?? [navigator.language])].map((tag) => String(tag).toLowerCase().split("-")[0]);
  const language = wishes.find((wish) => Object.hasOwn(TAGS, wish)) ?? "en";
  window.personaplexLanguage = language;
  document.documentElement.lang = TAGS[language];
  Object.defineProperty(navigator, "language", { configurable: true, get: () => TAGS[language] });
  if (language !== "en" && !window.personaplexStarting) {
    document.documentElement.dataset.words = "coming"; // page.css hides what would be English until they are there
    window.personaplexTable = fetch(`talk/static/locales/${language}.json`).then((answer) => answer.json());
    window.personaplexTable.catch(() => {}); // i18n.js looks at it
  }
}
