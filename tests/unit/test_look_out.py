"""What the look-out does with a talk in each state, and that it goes on looking as long as there are talks."""

from __future__ import annotations

import asyncio
import logging
import time
from types import SimpleNamespace
from typing import Any

import pytest
from support.call import eventually, play_out
from support.engine import CHOICES
from support.gate import Gate

from personaplex_app.engine.admission import Limits, TicketState
from personaplex_app.engine.call_clock import Notice
from personaplex_app.engine.session import SessionState
from personaplex_app.engine.tick_loop import CLOSING
from personaplex_app.web import look_out
from personaplex_app.web.line import Line
from personaplex_app.web.look_out import NO_ANSWER, NOT_CONNECTED, SILENT_PATH_SECONDS, LookOut
from personaplex_app.web.talk import Talk


class Post:
    """A look-out over one slot; `done` is what it did with talks and grants, in order."""

    def __init__(self) -> None:
        self.gate = Gate(slots=1, limits=Limits(turn_seconds=30.0, connect_seconds=20.0))
        self.talks: dict[str, Talk] = {}
        self.done: list[tuple[object, ...]] = []
        self.resumable: set[str] = set()
        line = Line(self.gate.admission, self.talks)
        self.look_out = LookOut(self, line, self.talks, self._end, self._lose)  # type: ignore[arg-type]

    def _end(self, talk: Talk, code: str, sentence: str) -> None:
        del self.talks[talk.ticket.secret]
        self.done.append(("end", code, sentence))

    def _lose(self, talk: Talk) -> None:
        self._end(talk, "lost", "")

    # The engine's side.

    def forget(self, grant: str) -> None:
        self.done.append(("forget", grant))

    def keep(self, grant: str) -> None:
        self.done.append(("keep", grant))

    def can_resume(self, grant: str) -> bool:
        return grant in self.resumable

    def leave(self, session: object, because: str) -> None:
        self.done.append(("leave", because))

    # Talks.

    def add(self, talk: Talk) -> Talk:
        self.talks[talk.ticket.secret] = talk
        return talk

    def live(self, **attributes: Any) -> Talk:
        """Somebody who talks, whose sound came just now."""
        talk = self.add(Talk(self.gate.talk("anna"), CHOICES))
        session = SimpleNamespace(state=SessionState.TALKING, ended_because="")
        for name, value in {"session": session, "last_packet_at": time.monotonic(), **attributes}.items():
            setattr(talk, name, value)
        return talk

    def look(self) -> list[tuple[object, ...]]:
        """Once; what it did."""
        self.done.clear()
        self.look_out.look()
        return list(self.done)


@pytest.fixture
def post() -> Post:
    return Post()


def test_a_talk_whose_sound_comes_is_left_alone(post: Post) -> None:
    post.live()
    assert post.look() == [] and len(post.talks) == 1


def test_a_path_that_is_silent_for_too_long_is_lost_unless_the_talk_is_on_its_way_in(post: Post) -> None:
    talk = post.live(last_packet_at=time.monotonic() - SILENT_PATH_SECONDS - 0.1, entering=True)
    assert post.look() == []
    talk.entering = False
    assert post.look() == [("end", "lost", "")]


@pytest.mark.parametrize(
    ("because", "resumable", "code"),
    [(CLOSING, True, "draining"), ("It broke.", True, "lost"), ("It broke.", False, "fault")],
)
def test_what_the_engine_ended_is_over_in_its_words(post: Post, because: str, resumable: bool, code: str) -> None:
    session = SimpleNamespace(state=SessionState.ENDED, ended_because=because)
    talk = post.live(grant="g", session=session, entering=True)
    post.resumable = {"g"} if resumable else set()
    assert post.look() == [], "between two sessions"
    talk.entering = False
    assert post.look() == [("end", code, because)]


def test_what_the_clock_says_is_told_and_its_end_ends_the_talk_in_the_engine_too(post: Post) -> None:
    warning, end = Notice("idle", "Say something.", 30.0), Notice("idle", "Nothing was said.", over=True)
    notices = [None, warning, end]
    talk = post.live(clock=SimpleNamespace(check=lambda now: notices.pop(0)))
    woken = talk.listen()
    woken.clear()
    assert post.look() == [] and not talk.warnings and not woken.is_set()
    assert post.look() == [] and list(talk.warnings) == [warning] and woken.is_set()
    assert post.look() == [("leave", end.sentence), ("end", "idle", end.sentence)]
    assert list(talk.warnings) == [warning]


def test_who_lets_a_turn_or_an_admission_lapse_is_told_which(post: Post) -> None:
    first = post.gate.talk("anna")
    post.add(Talk(post.gate.ask("bert"), CHOICES))
    post.gate.leave(first)
    assert post.look() == []
    post.gate.now += post.gate.limits.turn_seconds
    assert post.look() == [("end", "no_answer", NO_ANSWER)]
    post.add(Talk(post.gate.ask("carl"), CHOICES))
    post.gate.now += post.gate.limits.connect_seconds
    assert post.look() == [("end", "lost", NOT_CONNECTED)]


def test_who_comes_back_keeps_the_grant_while_it_waits_and_not_without_a_sound(post: Post) -> None:
    live = post.gate.talk("bert")
    talk = post.add(Talk(post.gate.come_back("anna"), None, "g"))
    assert post.look() == [("keep", "g")] == post.look()
    post.gate.leave(live)
    assert talk.ticket.state is TicketState.ADMITTED and post.look() == [("keep", "g")]
    post.gate.now += post.gate.limits.connect_seconds
    assert post.look() == [("forget", "g"), ("end", "lost", NOT_CONNECTED)]


def test_whose_place_is_another_after_a_look_is_woken(post: Post) -> None:
    live = post.live()
    waiting = post.add(Talk(post.gate.ask("bert"), CHOICES))
    woken = waiting.listen()
    woken.clear()
    post.look()
    assert not woken.is_set()
    post.gate.admission.leave(live.ticket)
    post.look()
    assert woken.is_set() and waiting.ticket.state is TicketState.CALLED


def test_it_looks_until_there_are_no_talks_and_begins_again(
    post: Post, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(look_out, "LOOK_SECONDS", 0.01)
    looks: list[int] = []

    def look() -> None:
        looks.append(len(post.talks))
        raise RuntimeError("blind")

    monkeypatch.setattr(post.look_out, "look", look)

    async def story() -> None:
        for _ in range(2):
            talk = post.live()
            before, alone = len(looks), len(asyncio.all_tasks())
            post.look_out.begin()
            post.look_out.begin()
            assert len(asyncio.all_tasks()) == alone + 1, "one looks, however often it is begun"
            await eventually(lambda: len(looks) >= before + 3, what="that it looks though a look failed")  # noqa: B023
            post.gate.leave(talk.ticket)
            post.talks.clear()
            await eventually(lambda: len(asyncio.all_tasks()) == alone, what="that nobody looks")  # noqa: B023
        post.live()
        post.look_out.begin()
        await post.look_out.close()
        assert len(asyncio.all_tasks()) == 1

    with caplog.at_level(logging.CRITICAL):
        play_out(story)
