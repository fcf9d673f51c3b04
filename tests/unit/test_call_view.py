"""What the page says of a call: priming, talking, slow, stalled, ended because; and which sampling holds since when."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.engine import CHOICES, frame_of

from personaplex_app.controls import SamplingSettings
from personaplex_app.engine.session import Session
from personaplex_app.engine.slots import Tenancy
from personaplex_app.web.call_view import CONNECTING, CallView, refused, status_words, view_session


@pytest.fixture
def session() -> Session:
    return Session(Tenancy(0, 1), replace(CHOICES, voice="NATF0", seed=42), None)


def test_before_anything_it_connects() -> None:
    assert CallView() == CallView("", CONNECTING, "", False)


def test_a_refusal_is_the_last_word() -> None:
    assert refused("No.") == CallView(status="No.", over=True)


def test_the_status_follows_the_talk(session: Session) -> None:
    assert status_words(session).startswith("Priming")
    session.begin()
    assert status_words(session) == "Talking. Speak whenever you like."
    for value in range(5):
        session.hear(frame_of(value))
    assert status_words(session) == ("Talking, but slower than real time here: 2 frames of what you said were dropped.")
    session.stalled = True
    assert "has not answered" in status_words(session)
    session.end("The line was cut.")
    assert status_words(session) == "Ended: The line was cut."


def test_the_view_shows_words_sampling_and_its_first_frame(session: Session) -> None:
    session.begin()
    for piece in (b" Hel", b"lo <b>", b"\xe2\x82"):
        session.deliver(frame_of(0), 5, piece)
    session.note_applied(SamplingSettings(audio_temperature=0.1))
    view = view_session(session)
    assert view.transcript == "Hello <b>" and not view.over
    assert view.applied.startswith("From frame 3 (0.2 s): audio temperature 0.1, text temperature 0.7,")
    assert view.applied.endswith("Voice NATF0, seed 42.")


def test_a_remark_stands_beside_the_status(session: Session) -> None:
    session.begin()
    assert view_session(session, "Seed must be a number.").status == (
        "Talking. Speak whenever you like. Seed must be a number."
    )


def test_an_ended_call_is_over_and_keeps_its_words(session: Session) -> None:
    session.begin()
    session.deliver(frame_of(0), 5, b" Bye")
    session.end("You ended the talk.")
    view = view_session(session)
    assert view.over and (view.transcript, view.status) == ("Bye", "Ended: You ended the talk.")
