"""The trained miniature in a real browser: a spoken question is answered aloud, the transcript is what was decoded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import soxr
from sentencepiece import SentencePieceProcessor
from support.browser import browser_page, collected, start_call, stop_call, wait_for_text
from support.served import served
from support.speech import listen, pause, speak

from .conftest import PROBE, Probe

PADDING = (0, 3)


@dataclass(frozen=True)
class Demo:
    """The server with the trained miniature, and the window into it."""

    url: str
    probe: Probe


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> Iterator[Demo]:
    probe = Probe(tmp_path_factory.mktemp("probe"))
    with served("--checkpoint", "demo", script=PROBE, **probe.variables) as url:
        yield Demo(url, probe)


@pytest.mark.timed  # a question that reaches a late engine in pieces is no question
def test_a_spoken_question_is_answered_aloud(microphone, demo, demo_directory) -> None:
    question = np.concatenate([pause(7), speak("How much is the bike?"), pause(5)])
    with browser_page(demo.url, microphone(question)) as page:
        assert "This is a toy, not PersonaPlex" in page.locator("#notice").inner_text()
        start_call(page)
        wait_for_text(page, "status", "Talking")
        wait_for_text(page, "transcript", "forty five dollars", 60_000)  # asked every 13 s
        page.wait_for_timeout(6_000)  # it is written before it is spoken
        said, heard, rate = collected(page)
        stop_call(page)
        wait_for_text(page, "status", "You ended the talk")
        page.wait_for_timeout(1000)  # for the last words
        session = demo.probe.sessions()[-1]
        turns = page.locator("#transcript .persona .said").all_text_contents()
    assert len(heard) / rate > 12
    asked = np.flatnonzero(np.abs(said) > 0.05)
    assert len(asked), "the question was heard by the page"
    answer = listen(soxr.resample(heard[asked[0] :], rate, 24_000)).replace("-", " ")  # the greeting would distract
    assert "45" in answer or "forty five" in answer
    pieces = SentencePieceProcessor(model_file=str(demo_directory / "tokenizer_spm_32k_3.model"))
    decoded = pieces.decode([token for token in session["tokens"] if token not in PADDING])
    assert " ".join(turns) == session["transcript"].strip() == decoded.strip()


def test_each_persona_fills_the_page(microphone, demo) -> None:
    with browser_page(demo.url, microphone(speak("Hello."))) as page:
        page.get_by_text("Martin, Golden Crust bakery").click()
        page.wait_for_function("() => document.querySelector('#prompt textarea').value.includes('Golden Crust')")
        assert "How much is the cake?" in page.locator("#about").inner_text()
        assert "NATM0" in page.locator("#voice input").input_value()
