"""What a visitor is told of a talk: its state, which sampling holds since when; and which lines are free."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from support.engine import CHOICES, Saved, frame_of

from personaplex_app.controls import SamplingSettings
from personaplex_app.engine.facade import EngineStatus
from personaplex_app.engine.past import Past
from personaplex_app.engine.session import Session
from personaplex_app.engine.slots import Tenancy, full_sentence
from personaplex_app.web.call_view import lines_words, standing, status_words, talk_view
from personaplex_app.window import Window


@pytest.fixture
def session() -> Session:
    return Session(Tenancy(0, 1), replace(CHOICES, voice="NATF0", seed=42), None)


def test_the_status_follows_the_talk(session: Session) -> None:
    assert status_words(session).startswith("Priming")
    session.begin()
    assert status_words(session) == "Talking. Speak whenever you like."
    for value in range(5):
        session.hear(frame_of(value))
    assert status_words(session) == "Talking, but slower than real time here: about 1 s of what you said was dropped."
    told = set()
    for value in range(25):
        session.hear(frame_of(value))
        told.add(status_words(session))
    assert len(told) == 2, "a sentence that is read aloud changes once a second at most"
    session.stalled = True
    assert "has not answered" in status_words(session)


def test_the_view_shows_state_sampling_and_its_first_frame(session: Session) -> None:
    assert talk_view(session, "webrtc")["state"] == "priming"
    session.begin()
    for _ in range(3):
        session.deliver(frame_of(0), 5, b"")
    session.note_applied(SamplingSettings(audio_temperature=0.1))
    view = talk_view(session, "webrtc")
    assert (view["state"], view["path"], view["resumed"]) == ("talking", "webrtc", False)
    assert view["applied"].startswith("From frame 3 (0.2 s): audio temperature 0.1, text temperature 0.7,")
    assert view["applied"].endswith("Voice NATF0, seed 42.")
    assert view["grant"] == session.grant


def test_a_grant_is_told_once_there_is_a_talk_to_resume(session: Session) -> None:
    assert talk_view(session, "webrtc")["grant"] == "", "it primes: nothing was said yet"
    session.begin()
    assert talk_view(session, "webrtc")["grant"] == session.grant
    resumed = Session.continued(session.so_far(), Saved(), Tenancy(0, 2), lambda: None, time.monotonic)
    view = talk_view(resumed, "webrtc")
    assert view["state"] == "priming" and view["grant"] == resumed.grant, "its state lies there from the start"


def test_the_seed_is_told_whole_and_the_frames_are_counted(session: Session) -> None:
    large = replace(session, choices=replace(session.choices, seed=2**63 - 1))
    assert talk_view(large, "webrtc")["seed"] == "9223372036854775807", "as text: a browser's number would round it"
    session.begin()
    session.deliver(frame_of(0), 5, b"")
    assert talk_view(session, "webrtc")["frames"] == 1


def test_the_window_is_told_and_a_frame_alone_is_no_news(session: Session) -> None:
    assert talk_view(session, "webrtc")["window"] is None, "an echo has none"
    session.past = Past(Window(3000), prompt=90)
    before = talk_view(session, "webrtc")
    assert before["window"] == {
        "positions": 3000,
        "kept": None,
        "prompt": 90,
        "used": 90,
        "renewals": 0,
        "overflows": False,
        "forgot_prompt": False,
    }
    session.past.stands_at(91)
    session.counters.stepped += 1
    after = talk_view(session, "webrtc")
    assert after["window"]["used"] == 91 and after != before
    assert standing(after) == standing(before)
    session.past.stands_at(3001)
    assert standing(talk_view(session, "webrtc")) != standing(before), "that the oldest is forgotten is news"


def test_what_was_lost_is_counted(session: Session) -> None:
    session.begin()
    for value in range(8):
        session.hear(frame_of(value))
        session.deliver(frame_of(0), 5, b"")
    counters = {"heard_dropped": 5, "spoken_dropped": 4, "silence_filled": 0, "missed": 0}
    assert talk_view(session, "socket")["counters"] == counters


def test_a_remark_stands_beside_the_status_and_the_socket_is_said(session: Session) -> None:
    session.begin()
    view = talk_view(session, "socket", "Seed must be a number.")
    assert view["sentence"] == "Over the socket. Talking. Speak whenever you like. Seed must be a number."
    assert talk_view(session, "webrtc")["sentence"] == "Talking. Speak whenever you like."


@pytest.mark.parametrize(
    ("free", "waiting", "draining", "failed", "words"),
    [
        (2, 0, "", "", "Ready: 2 of 3 lines free."),
        (0, 0, "", "", full_sentence(3)),
        (0, 4, "", "", f"{full_sentence(3)} 4 in the line."),
        (1, 1, "", "", f"{full_sentence(3)} 1 in the line."),
        (2, 0, "The server is about to stop.", "", "The server is about to stop."),
        (0, 2, "The server is about to stop.", "The engine is dead.", "The engine is dead."),
    ],
    ids=["free", "full", "line", "promised", "draining", "dead"],
)
def test_before_a_talk_the_lines_are_told(free: int, waiting: int, draining: str, failed: str, words: str) -> None:
    assert lines_words(EngineStatus(3, 3, 15.0, failed), free, waiting, draining) == words


def test_one_line_is_called_one() -> None:
    assert "one line only" in full_sentence(1) and full_sentence(4).startswith("All 4 lines are taken")
