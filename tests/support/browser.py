"""A real browser with a file as its microphone, and a tap on what it sends and hears.

Chromium plays the WAV as the microphone; a script notes both tracks of the call in one audio graph, so that the
time between them is what a person would measure with one ear at the mouth and one at the loudspeaker.
"""

from __future__ import annotations

import base64
import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

from personaplex_app.audio import Pcm

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-fake-ui-for-media-stream",
    "--use-fake-device-for-media-stream",
    "--autoplay-policy=no-user-gesture-required",
]
TEXT = """(id) => {
  const box = document.querySelector(`#${id} textarea, #${id} input`);
  return (box ? box.value : document.getElementById(id)?.textContent) || "";
}"""
TAP = """
(() => {
  const tap = window.__tap = {said: [], heard: [], rate: 0, states: [], peers: []};
  const wire = (stream, channel) => {
    const context = tap.context = tap.context || new AudioContext({sampleRate: 48000});
    tap.rate = context.sampleRate;
    if (!tap.merger) {
      tap.merger = context.createChannelMerger(2);
      const node = context.createScriptProcessor(4096, 2, 1);
      node.onaudioprocess = (event) => {
        tap.said.push(new Float32Array(event.inputBuffer.getChannelData(0)));
        tap.heard.push(new Float32Array(event.inputBuffer.getChannelData(1)));
      };
      tap.merger.connect(node); node.connect(context.destination);
    }
    context.createMediaStreamSource(stream).connect(tap.merger, 0, channel);
  };
  const microphone = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
  navigator.mediaDevices.getUserMedia = async (wish) => {
    tap.wish = wish;
    const stream = await microphone(wish);
    tap.pending = stream;
    return stream;
  };
  const Original = window.RTCPeerConnection;
  window.RTCPeerConnection = function (...args) {
    const peer = new Original(...args);
    tap.peers.push(peer);
    peer.addEventListener('connectionstatechange', () => tap.states.push(peer.connectionState));
    peer.addEventListener('track', (event) => {
      if (tap.pending) wire(new MediaStream(tap.pending.getAudioTracks()), 0);
      wire(new MediaStream([event.track]), 1);
    });
    return peer;
  };
  window.RTCPeerConnection.prototype = Original.prototype;
})();
"""
COLLECT = """
() => {
  const bytes = (list) => {
    const all = new Float32Array(list.reduce((n, a) => n + a.length, 0));
    let at = 0;
    for (const a of list) { all.set(a, at); at += a.length; }
    let text = '';
    const view = new Uint8Array(all.buffer);
    for (let i = 0; i < view.length; i += 32768) text += String.fromCharCode(...view.subarray(i, i + 32768));
    return btoa(text);
  };
  return {said: bytes(window.__tap.said), heard: bytes(window.__tap.heard), rate: window.__tap.rate};
}
"""
NOTE = """
(id) => {
  const box = document.getElementById(id);
  const noted = window.__noted = [];
  new MutationObserver(() => noted.push(box.textContent)).observe(box, {childList: true, subtree: true});
}
"""


@contextlib.contextmanager
def browser_page(url: str, microphone: Path, width: int = 1200, height: int = 1000, *flags: str) -> Iterator[Page]:
    """A page of a fresh browser whose microphone plays the WAV over and over."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            headless=True,
            args=[*FLAGS, *flags, f"--use-file-for-fake-audio-capture={microphone}"],
        )
        try:
            yield _open(browser, url, width, height)
        finally:
            browser.close()


def second_visitor(page: Page, url: str) -> Page:
    """Another visitor, with a profile of its own, in the same browser."""
    browser = page.context.browser
    assert browser is not None
    return _open(browser, url, 1200, 1000)


def _open(browser: Browser, url: str, width: int, height: int) -> Page:
    context = browser.new_context(viewport={"width": width, "height": height})
    context.add_init_script(TAP)
    page = context.new_page()
    page.goto(url)
    page.wait_for_selector("#talk-button", timeout=60_000)
    page.wait_for_selector("#call button", state="attached", timeout=60_000)
    return page


def start_call(page: Page, wait_connected: bool = True) -> None:
    """Presses Talk and waits for the sound to flow."""
    page.locator("#talk-button").click()
    if wait_connected:
        page.wait_for_function("() => window.__tap.states.includes('connected')", timeout=30_000)


def stop_call(page: Page) -> None:
    """Presses the button again."""
    page.evaluate("() => { window.__tap.states = []; }")
    page.locator("#talk-button").click()


def text_of(page: Page, element_id: str) -> str:
    """What a box of the page shows."""
    return str(page.evaluate(TEXT, element_id))


def wait_for_text(page: Page, element_id: str, part: str, timeout_ms: int = 20_000) -> str:
    """Waits until a box shows a part; returns all of it."""
    page.wait_for_function(f"([id, part]) => ({TEXT})(id).includes(part)", arg=[element_id, part], timeout=timeout_ms)
    return text_of(page, element_id)


def note_texts(page: Page, element_id: str) -> None:
    """From now on every text of a box is noted, however short it stands there; `wait_noted` looks for one."""
    page.evaluate(NOTE, element_id)


def wait_noted(page: Page, part: str) -> None:
    """Waits until a text with this part was shown since `note_texts`."""
    page.wait_for_function("(part) => window.__noted.some((text) => text.includes(part))", arg=part)


def collected(page: Page) -> tuple[Pcm, Pcm, int]:
    """What the call's two tracks carried so far: said, heard (float32), and their rate."""
    got: dict[str, Any] = page.evaluate(COLLECT)

    def floats(text: str) -> Pcm:
        return np.frombuffer(base64.b64decode(text), dtype=np.float32)

    return floats(got["said"]), floats(got["heard"]), int(got["rate"])
