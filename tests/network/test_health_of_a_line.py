"""The health strip of a page whose line loses sound: the network is named, with its share, and never the GPU."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
import soundfile
from support.browser import browser_page, start_call, stop_call, wait_for_text
from support.lossy_link import SERVER, lossy_link
from support.netns import needs_namespaces
from support.served import served
from support.signals import clicks

pytestmark = [needs_namespaces, pytest.mark.browser, pytest.mark.timed]

FLAGS = ("--engine", "echo", "--plain-microphone", "--host", "0.0.0.0", "--public")
LOSS = 0.1
TOLD = """() => {
  window.told = [];
  const strip = document.getElementById('health');
  new MutationObserver(() => strip.dataset.who && told.push(strip.dataset.who)).observe(strip, {attributes: true});
}"""
WHO = "who => document.getElementById('health').dataset.who === who"


def test_a_line_that_loses_sound_is_the_network_s_fault_and_recovers(tmp_path: Path) -> None:
    wav = tmp_path / "microphone.wav"
    soundfile.write(wav, clicks(7.0), 48_000)
    with lossy_link(0.0, 0.02) as link, ExitStack() as stack:
        with link.server.inside():
            url = stack.enter_context(served(*FLAGS))
        address = f"{SERVER}:{url.rpartition(':')[2]}"
        stack.enter_context(link.client.inside())
        secure = f"--unsafely-treat-insecure-origin-as-secure=http://{address}"
        page = stack.enter_context(browser_page(f"http://{address}/", wav, 1200, 1000, secure))
        page.evaluate(TOLD)
        start_call(page)
        wait_for_text(page, "status", "Talking")
        page.wait_for_function(WHO, arg="well", timeout=30_000)
        link.weather.loss = LOSS
        page.wait_for_function(WHO, arg="network", timeout=30_000)
        sentence = wait_for_text(page, "health-verdict", "Your network loses")
        percent = int(sentence.split("loses ")[1].split(" %")[0])
        assert 3 <= percent <= 30, sentence
        assert sentence == wait_for_text(page, "health-told", "Your network loses")
        link.weather.loss = 0.0
        page.wait_for_function(WHO, arg="well", timeout=30_000)
        assert set(page.evaluate("() => told")) == {"well", "network"}
        stop_call(page)
        wait_for_text(page, "status", "lines free")
