"""A page with nothing but the socket's sound scripts, in a real browser, and a virtual clock that plays through them.

The page comes from a small server of static files. A tap joins the microphone and the loudspeaker in one audio graph.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import http.server
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page, sync_playwright
from support.browser import CHROMIUM, FLAGS

import personaplex_app.web
from personaplex_app.audio import Pcm

STATIC = Path(personaplex_app.web.__file__).parent / "static"
PAGE = b"""<!doctype html><title>sound</title>
<script src="resample.js"></script><script src="waiting_sound.js"></script><script src="playout.js"></script>
<script type="module" src="socket_sound.js"></script>"""

# Frames come at their times (ms) while 128 samples are played after 128 samples, as an audio thread does.
CLOCK = """
window.playThrough = ({times, loud, hz, seconds, keep}) => {
  const playout = new personaplexPlayout();
  const waits = [];
  const heard = keep ? new Float32Array(Math.ceil(seconds * 24000 / 128) * 128) : null;
  const block = new Float32Array(128);
  let seed = 1, next = 0, last = 0, jump = 0, longest = 0;
  const hiss = () => (seed = (seed * 1664525 + 1013904223) % 4294967296) / 2147483648 - 1;
  const frame = (index) => Float32Array.from({length: 1920}, (_, k) => {
    const tone = 0.3 * Math.sin(2 * Math.PI * hz * (1920 * index + k) / 24000);
    return loud[index % loud.length] ? tone : 0.002 * hiss();
  });
  for (let at = 0; at < seconds * 24000; at += 128) {
    for (; next < times.length && times[next] <= at / 24; next += 1) {
      playout.push(frame(next));
      waits.push(playout.waiting / 24 - 80);
    }
    longest = Math.max(longest, playout.waiting / 24);
    playout.pull(block);
    for (const sample of block) {
      jump = Math.max(jump, Math.abs(sample - last));
      last = sample;
    }
    if (heard) heard.set(block, at);
  }
  const report = playout.report();
  const counted = Object.fromEntries(Object.entries(playout.counted).map(([name, samples]) => [name, samples / 24]));
  return {waits, jump, longest, report, counted, heard: heard && bytesOf(heard)};
};
window.bytesOf = (floats) => {
  const view = new Uint8Array(floats.buffer, floats.byteOffset, floats.byteLength);
  let text = '';
  for (let i = 0; i < view.length; i += 32768) text += String.fromCharCode(...view.subarray(i, i + 32768));
  return btoa(text);
};
"""
# Notes what the microphone gives and what is played; where asked, joins no microphone to a context of another rate.
TAP = """
(() => {
  const tap = window.tap = {said: [], heard: [], streams: [], contexts: [], rate: 0, onlyRate: 0};
  const connect = AudioNode.prototype.connect;
  const mergerOf = (context) => {
    if (tap.merger?.context === context) return tap.merger;
    tap.merger = context.createChannelMerger(2);
    tap.rate = context.sampleRate;
    const node = tap.node = context.createScriptProcessor(2048, 2, 1);
    node.onaudioprocess = ({inputBuffer}) => {
      tap.said.push(new Float32Array(inputBuffer.getChannelData(0)));
      tap.heard.push(new Float32Array(inputBuffer.getChannelData(1)));
    };
    connect.call(tap.merger, node);
    connect.call(node, context.destination);
    return tap.merger;
  };
  AudioNode.prototype.connect = function (target, ...rest) {
    if (this instanceof MediaStreamAudioSourceNode) connect.call(this, mergerOf(this.context), 0, 0);
    if (this instanceof AudioWorkletNode && target === this.context.destination)
      connect.call(this, mergerOf(this.context), 0, 1);
    return connect.call(this, target, ...rest);
  };
  const Original = AudioContext;
  window.AudioContext = class extends Original {
    constructor(wish) {
      super(tap.onlyRate && !wish.sampleRate ? {...wish, sampleRate: tap.onlyRate} : wish);
      tap.contexts.push(this);
    }
    createMediaStreamSource(stream) {
      if (tap.onlyRate && this.sampleRate !== tap.onlyRate) throw new DOMException('other rate', 'NotSupportedError');
      return super.createMediaStreamSource(stream);
    }
  };
  const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
  navigator.mediaDevices.getUserMedia = async (wish) => {
    const stream = await ask(wish);
    tap.streams.push(stream);
    return stream;
  };
})();
"""
LOOP_BACK = """
async ({onlyRate, milliseconds, mutedAfter}) => {
  Object.assign(tap, {said: [], heard: [], onlyRate});
  const sent = [], reports = [];
  let frame = [];
  const send = (bytes) => {
    frame.push(new Int16Array(bytes));
    sent.push(frame.at(-1));
    if (frame.length < 4) return;
    const whole = new Int16Array(1920);
    frame.forEach((packet, index) => whole.set(packet, 480 * index));
    frame = [];
    sound.play(whole.buffer);
  };
  const constraints = {audio: {echoCancellation: false, noiseSuppression: false, autoGainControl: false}};
  let sound = {play() {}};
  sound = await personaplexSound.start({constraints, base: location.href, send, onReport: (it) => reports.push(it)});
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  await wait(milliseconds);
  const running = sound.running;
  const spoken = sent.length;
  if (mutedAfter) { sound.mute(true); await wait(mutedAfter); }
  await Promise.all([sound.stop(), sound.stop()]);
  const joined = (list) => {
    const all = new Float32Array(list.reduce((sum, part) => sum + part.length, 0));
    list.reduce((at, part) => (all.set(part, at), at + part.length), 0);
    return bytesOf(all);
  };
  return {
    said: joined(tap.said), heard: joined(tap.heard), rate: tap.rate, reports, running, spoken,
    sent: joined(sent.map((packet) => Float32Array.from(packet, (x) => x / 32768))),
    sizes: [...new Set(sent.map((packet) => packet.length))],
    open: tap.contexts.filter((context) => context.state !== 'closed').length,
    live: tap.streams.flatMap((stream) => stream.getTracks()).filter((track) => track.readyState === 'live').length,
  };
}
"""


def floats(text: str) -> Pcm:
    """Float32 sound that a page gave as base64."""
    return np.frombuffer(base64.b64decode(text), dtype=np.float32)


@dataclass(frozen=True)
class Played:
    """What a page's playout did on the virtual clock.

    Attributes:
        waits_ms: what waited before each frame. longest_ms: the most that waited, frame included.
        jump: the largest step between samples. heard: what was played, where kept. counted: in ms, torn as it is.
    """

    waits_ms: Pcm
    longest_ms: float
    jump: float
    report: dict[str, float]
    counted: dict[str, float]
    heard: Pcm


def play_through(
    page: Page, times_ms: list[float], loud: list[bool], seconds: float, hz: float = 440.0, keep: bool = False
) -> Played:
    """Frames at their times into a fresh Playout: a tone where `loud` (over and over), else a hiss."""
    wish = {"times": [float(at) for at in times_ms], "loud": loud, "hz": hz, "seconds": seconds, "keep": keep}
    got = page.evaluate("(wish) => playThrough(wish)", wish)
    heard = floats(got["heard"]) if keep else np.zeros(0, dtype=np.float32)
    return Played(np.array(got["waits"]), got["longest"], got["jump"], got["report"], got["counted"], heard)


def loop_back(page: Page, seconds: float, only_rate_hz: int = 0, muted_seconds: float = 0.0) -> dict[str, Any]:
    """Plays the microphone back, 80 ms after 80 ms, in the page's real audio; 0: the context has the rate it asks for.

    With `only_rate_hz` a microphone joins no context of another rate, as in Firefox.
    """
    wish = {"onlyRate": only_rate_hz, "milliseconds": 1000 * seconds, "mutedAfter": 1000 * muted_seconds}
    got: dict[str, Any] = page.evaluate(LOOP_BACK, wish)
    return {**got, **{name: floats(got[name]) for name in ("said", "heard", "sent")}}


class _Files(http.server.SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path != "/":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE)
        return None

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@contextlib.contextmanager
def _static_files() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Files, directory=str(STATIC)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def sound_page(microphone: Path) -> Iterator[Page]:
    """The page in a browser whose microphone plays the WAV over and over."""
    with _static_files() as url, sync_playwright() as playwright:
        args = [*FLAGS, f"--use-file-for-fake-audio-capture={microphone}"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=args)
        try:
            page = browser.new_page()
            page.add_init_script(CLOCK + TAP)
            page.goto(url)
            page.wait_for_function("() => window.personaplexSound && window.personaplexPlayout")
            yield page
        finally:
            browser.close()
