"""Whatever goes wrong is told with what can be done about it, in the visitor's language; nothing stays English there.

One browser, one server with a line; its microphone gives digital silence. Permissions are the browser's own.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from support.browser import CHROMIUM, FLAGS
from support.library_page import READY
from support.sentences import TOLD
from support.served import served

from personaplex_app.web.languages import table_of

from .conftest import PROBE, Probe

LOCALES = {"en": "en-GB", "zh": "zh-HK", "ko": "ko-KR"}
PATIENCE_MS = 30_000
HOSTS = "--host-resolver-rules=MAP insecure.test 127.0.0.1"
FRAMES = (
    "--disable-features=LocalNetworkAccessChecks"  # else no page of a test's may hold one of this machine's in a frame
)
THROWS = """(name) => { navigator.mediaDevices.getUserMedia = async () => {
  throw new DOMException("the browser's own words", name);
}; }"""
UNPLUG = """() => (window.personaplex.path === "webrtc" ? window.personaplex.rtc.tracks().said : window.streams.at(-1)
  .getAudioTracks()[0]).dispatchEvent(new Event("ended"))"""
NOTES = """(() => {
  window.streams = []; window.contexts = [];
  const devices = navigator.mediaDevices;
  if (devices) {
    const ask = devices.getUserMedia.bind(devices);
    devices.getUserMedia = async (wish) => { streams.push(await ask(wish)); return streams.at(-1); };
  }
  const Original = AudioContext;
  window.AudioContext = class extends Original { constructor(wish) { super(wish); contexts.push(this); } };
})()"""
# Every text that can be seen or heard, but what a persona is made of.
SEEN = """() => {
  const content = ".card .title, .card .pitch, #about-title, #about-pitch, #ask, #dock-title, #languages, textarea,"
    + " option, script, style, noscript, .entry .said, footer, .toast-wrap, #call, #ticket, #fill";
  const shown = (element) => element.checkVisibility({ visibilityProperty: true }) && !element.closest(content);
  const NAMES = ["aria-label", "title", "placeholder", "aria-valuetext"];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (node.textContent.trim() && shown(node.parentElement)) found.push(node.textContent.trim());
  }
  for (const element of document.querySelectorAll("[aria-label], [title], [placeholder], [aria-valuetext]")) {
    if (!shown(element)) continue;
    for (const name of NAMES) found.push(element.getAttribute(name) ?? "");
  }
  return found;
}"""
# Names, units and what is the same in every language.
NAMES = set(
    re.findall(
        r"\w+",
        """personaplex_app WebRTC TURN over top k ms dB dBFS GPU NATF none Enter M Ctrl C KB MB SF
  Harbour Bank bank Daniel Moreno wav mp3 flac m4a ogg WAV JSON SVG VTT SRT""",
    )
)


def said(language: str, english: str, part: str = "page", **values: str) -> str:
    """A sentence of ours as the visitor reads it."""
    text = table_of(language).parts[part].get(english, english)
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    import soundfile

    silence = tmp_path_factory.mktemp("microphone") / "silence.wav"
    soundfile.write(silence, np.zeros(48_000, dtype=np.float32), 48_000)
    flags = [flag for flag in FLAGS if "fake-ui" not in flag]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            headless=True,
            args=[*flags, HOSTS, FRAMES, f"--use-file-for-fake-audio-capture={silence}"],
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Probe:
    return Probe(tmp_path_factory.mktemp("probe"))


@pytest.fixture(scope="module")
def url(faults: Probe) -> Iterator[str]:
    with served("--engine", "echo", script=PROBE, PROBE_LIMIT=str(_limit(faults)), **faults.variables) as url:
        yield url


def _limit(faults: Probe) -> Path:
    return faults.fail.with_name("limit")


def _context(browser: Browser, language: str, *permissions: str) -> BrowserContext:
    context = browser.new_context(locale=LOCALES[language], permissions=list(permissions))
    context.set_default_timeout(PATIENCE_MS)
    context.add_init_script(NOTES)
    return context


def _open(context: BrowserContext, url: str) -> Page:
    page = context.new_page()
    page.goto(url)
    page.wait_for_selector(READY)
    return page


def _reads(page: Any, text: str, where: str = "#status") -> None:
    expect(page.locator(where)).to_contain_text(text, timeout=PATIENCE_MS)


def _talk(page: Page) -> None:
    page.locator("#talk-button").click()
    expect(page.locator("#talk-button")).to_have_attribute("data-state", "talking", timeout=PATIENCE_MS)


def _over(page: Page) -> None:
    expect(page.locator("#talk-button")).to_have_attribute("data-state", "idle", timeout=PATIENCE_MS)


def _assert_no_english(page: Page) -> None:
    texts = page.evaluate(SEEN)
    assert len(texts) > 40
    assert not _english(texts), "\n".join(sorted(_english(texts)))


def _english(texts: list[str]) -> set[str]:
    return {text for text in texts if set(re.findall(r"[A-Za-z][A-Za-z0-9_]*", text)) - NAMES}


def _in_other_words(page: Page) -> Page:
    """Chooses Korean and Chinese again: the page keeps the choice, the chosen card and what was written."""
    page.locator(".card").nth(1).click()
    page.locator("#prompt textarea").fill("You enjoy having a good conversation. You keep bees.")
    for language in ("ko", "zh"):
        page.locator(f"#languages [data-language={language}]").click()
        page.wait_for_function("(language) => window.personaplexLanguage === language", arg=language)
        page.wait_for_selector(READY)
        page.wait_for_function("window.personaplex.values.prompt.endsWith('You keep bees.')")
        assert page.locator(".card").nth(1).get_attribute("aria-pressed") == "true"
        assert page.locator("#talk-button").inner_text() == said(language, "Talk")
    return page


@pytest.mark.parametrize("language", LOCALES)
def test_without_a_microphone_it_says_why_and_what_to_do(browser: Browser, url: str, language: str) -> None:
    page = _open(_context(browser, language), url)
    assert page.evaluate("document.documentElement.lang") == {"en": "en", "zh": "zh-CN", "ko": "ko"}[language]
    page.locator("#talk-button").click()
    _reads(
        page, said(language, "The microphone was refused. Allow it beside the page's address, then press Talk again.")
    )
    for name, words in {
        "NotFoundError": "No microphone was found. Connect one and press Talk again.",
        "NotReadableError": "The microphone is used by another program. Close that and press Talk again.",
    }.items():
        page.evaluate(THROWS, name)
        page.locator("#talk-button").click()
        _reads(page, said(language, words))
        _over(page)
    page.goto(url.replace("127.0.0.1", "insecure.test"))
    page.wait_for_selector("#talk-button")
    page.wait_for_function("window.personaplex?.values.prompt")
    page.locator("#talk-button").click()
    _reads(
        page,
        said(language, "Microphones work on https pages and on localhost only. Open this page by its https address."),
    )
    frame = f'<iframe src="{url}/" style="width:1200px;height:1500px"></iframe>'
    page.route("http://outer.localhost/**", lambda route: route.fulfill(body=frame, content_type="text/html"))
    page.goto("http://outer.localhost/")
    inner = page.frame_locator("iframe")
    expect(inner.locator("#talk-button")).to_have_attribute("data-state", "idle", timeout=PATIENCE_MS)
    page.wait_for_function("frames.length === 1")
    page.frames[1].wait_for_function("window.personaplex?.values.prompt")
    inner.locator("#talk-button").click()
    _reads(
        inner,
        said(language, "This page stands in a frame that may not use the microphone. Open it in a window of its own."),
    )
    page.context.close()


def test_a_talk_in_chinese_is_chinese_from_beginning_to_end(browser: Browser, url: str, faults: Probe) -> None:
    page = _open(_context(browser, "zh", "microphone"), url)
    _reads(page, said("zh", "Ready: {free} of {slots} lines free.", "server", free="1", slots="1"))
    for fold in page.locator("button.label-wrap").all():
        fold.click()
    page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
    page.locator("#own-told").wait_for()
    _assert_no_english(page)
    page = _in_other_words(page)
    other = _open(_context(browser, "ko", "microphone"), url)
    _talk(page)
    _assert_no_english(page)
    other.locator("#talk-button").click()
    _reads(other, "대기 순서는 1번째이며")
    silent = "Nothing is heard from your microphone. See that it is not switched off, and that the browser uses "
    _reads(page, said("zh", f"{silent}the right one."), "#warning")
    _assert_no_english(page)
    page.locator("#talk-button").click()
    _reads(page, said("zh", "Ended: {sentence}", sentence=said("zh", "You ended the talk.", "server")))
    _assert_no_english(page)
    _reads(other, "30초 안에 응답해 주세요")
    _assert_no_english(other)
    other.context.close()
    page.context.close()


def test_nobody_sees_english_first_and_nobody_waits_in_english(browser: Browser, url: str) -> None:
    page = _context(browser, "ko").new_page()
    held: list[Any] = []
    page.route("**/locales/*.json", lambda route: held.append(route))
    page.goto(url)
    page.wait_for_selector("#ask", state="attached")
    page.wait_for_function("document.querySelector('#masthead')?.innerText.length > 20")
    assert not page.locator("#talk-button").is_visible() and not _english(page.evaluate(SEEN))
    held[0].continue_()
    expect(page.locator("#talk-button")).to_have_text(said("ko", "Talk"))
    page.context.close()
    english = _context(browser, "en").new_page()
    asked: list[str] = []
    english.on("request", lambda request: asked.append(request.url))
    english.goto(url)
    english.wait_for_selector(READY)
    assert asked and not any("locales" in one for one in asked)
    english.context.close()


def test_what_breaks_in_a_talk_is_told_and_the_talk_goes_on_where_it_can(
    browser: Browser, url: str, faults: Probe
) -> None:
    page = _open(_context(browser, "ko", "microphone"), url)
    for socket in (False, True):
        page.evaluate("(on) => { document.getElementById('use-socket').checked = on; }", socket)
        _talk(page)
        page.wait_for_function("window.personaplex.path === 'socket' || window.personaplex.rtc.tracks()")
        page.evaluate(UNPLUG)
        _reads(page, said("ko", "Your microphone is gone; another one is used now."), "#warning")
        assert page.evaluate("window.personaplex.state") == "talking"
        if socket:
            _assert_a_sleeping_loudspeaker_is_woken(page)
        page.evaluate(THROWS, "NotFoundError")
        page.evaluate(UNPLUG)
        gone = "Your microphone is gone, unplugged or taken by another program, and no other was found. "
        _reads(page, said("ko", f"{gone}Connect one and press Talk again."))
        _over(page)
        page.reload()
        page.wait_for_selector(READY)
    _assert_a_lost_connection_comes_back(page)
    with _present(_limit(faults)):
        _reads(page, "종료: 통화가 제한 시간인 30분에 이르렀습니다.")
        _over(page)
    _talk(page)
    with _present(faults.fail):
        failed = "The engine failed in the middle of a step. Start again; if it happens again, tell the operator."
        _reads(page, said("ko", "Ended: {sentence}", sentence=said("ko", failed, "server")))
    page.context.close()


def _assert_a_sleeping_loudspeaker_is_woken(page: Page) -> None:
    asleep = said("ko", "The browser holds the sound back. Press any key or click anywhere on this page.")
    page.evaluate("() => window.contexts.filter((one) => one.state === 'running').forEach((one) => one.suspend())")
    _reads(page, asleep, "#warning")
    page.keyboard.press("Shift")
    expect(page.locator("#warning")).not_to_contain_text(asleep, timeout=PATIENCE_MS)


def _assert_a_lost_connection_comes_back(page: Page) -> None:
    """The talk runs again afterwards."""
    _talk(page)
    page.wait_for_function("window.personaplex.grant")
    page.context.set_offline(True)
    page.evaluate("() => window.personaplex.line.socket.close()")
    _reads(page, said("ko", "The connection was lost. Going back to your talk ..."))
    page.context.set_offline(False)
    expect(page.locator("#talk-button")).to_have_attribute("data-state", "talking", timeout=PATIENCE_MS)


@contextlib.contextmanager
def _present(file: Path) -> Iterator[None]:
    file.touch()
    yield
    file.unlink()


def test_the_page_s_script_says_the_same_as_the_server(browser: Browser, url: str) -> None:
    strange = ["Nobody says this. The connection was lost. Nor this.", "a. " * 50, "", "$& {seconds} $1 s"]
    page = browser.new_context().new_page()
    page.goto(f"{url}/talk/lines")  # a page of the same origin, with nothing on it
    for language in ("zh", "ko"):
        spoken = page.evaluate(SAY, [language, [*TOLD, *strange]])
        assert spoken == [table_of(language).translated(one) for one in (*TOLD, *strange)]
    page.context.close()


SAY = """async ([language, asked]) => {
  const { Sentences } = await import("/talk/static/sentences.js");
  const { boxes, page, server } = await (await fetch(`/talk/static/locales/${language}.json`)).json();
  const sentences = new Sentences({ ...boxes, ...page, ...server }, server, language);
  return asked.map((one) => sentences.translated(one));
}"""
