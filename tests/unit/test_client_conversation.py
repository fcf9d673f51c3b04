"""The course of a talk as a client takes it: answers, refusals, and the way back after a loss. Pure, with a clock."""

from __future__ import annotations

import pytest

from personaplex_app.client.conversation import GONE, GRANT_SECONDS, Conversation, Phase
from personaplex_app.client.messages import (
    Admitted,
    Ended,
    Lost,
    Refused,
    StartedOver,
    TalkState,
    Turn,
    Unknown,
    Waiting,
    Words,
)
from personaplex_app.errors import InvalidInput, NoCapacity, ServerFault, SessionEnded


def talk_state(state: str = "talking", grant: str = "g1") -> TalkState:
    return TalkState(state, "", "socket", grant, "", False, {}, "1", 0, None)


def talking() -> Conversation:
    course = Conversation({"voice": "none"})
    course.heard(Admitted("t", [], 15))
    course.heard(talk_state("priming"))
    course.heard(talk_state())
    return course


def test_from_the_question_to_the_talk() -> None:
    course = Conversation({"voice": "none"})
    assert course.opening() == {"type": "ask", "choices": {"voice": "none"}}
    assert course.heard(Waiting(1, 1, None, "")) == []
    assert course.heard(Turn(30, "")) == [{"type": "answer"}]
    assert course.heard(Admitted("t", [], 15)) == [{"type": "sound"}]
    assert course.phase is Phase.ADMITTED
    course.heard(talk_state("priming"))
    assert course.phase is Phase.ADMITTED and not course.begun
    course.heard(talk_state())
    assert course.phase is Phase.TALKING and course.begun


def test_words_are_joined_or_replaced() -> None:
    course = talking()
    for words in (Words("Hel", False), Words("lo", False), Unknown("weather")):
        course.heard(words)
    assert course.transcript == "Hello"
    course.heard(Words("Hello again", True))
    assert course.transcript == "Hello again"


def test_a_talk_that_is_started_over_begins_with_no_words_and_another_grant() -> None:
    course = talking()
    course.heard(Words("Hello", True))
    course.heard(StartedOver("The talk begins anew."))
    course.heard(talk_state("priming", grant=""))
    assert course.transcript == "" and course.phase is Phase.ADMITTED and course.begun
    course.heard(talk_state(grant="g2"))
    assert course.phase is Phase.TALKING
    course.disconnected(0.0)
    assert course.opening() == {"type": "resume", "grant": "g2", "path": "socket"}


@pytest.mark.parametrize("code", ["too_many_joins", "invalid_input", "unknown_voice"])
@pytest.mark.parametrize("state", ["priming", "talking"])
def test_a_start_over_that_is_refused_ends_no_talk(code: str, state: str) -> None:
    course = talking()
    course.heard(StartedOver(""))
    course.heard(talk_state(state))
    course.heard(Refused(code, "no"))
    course.heard(talk_state())
    assert course.phase is Phase.TALKING and course.failure is None and not course.retry


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("no_capacity", NoCapacity),
        ("too_many_tickets", NoCapacity),
        ("too_many_joins", NoCapacity),
        ("draining", NoCapacity),
        ("invalid_input", InvalidInput),
        ("bad_message", InvalidInput),
        ("grant_unknown", SessionEnded),
        ("server_fault", ServerFault),
        ("of_a_later_version", InvalidInput),
    ],
)
def test_a_refused_question_is_an_error_by_what_helps(code: str, kind: type) -> None:
    course = Conversation({})
    course.heard(Refused(code, "Why."))
    assert course.over and type(course.failure) is kind
    assert (course.failure.code, course.failure.sentence) == (code, "Why.")


def test_a_refused_slider_ends_nothing() -> None:
    course = talking()
    course.heard(Refused("invalid_input", "Temperature."))
    assert course.phase is Phase.TALKING and course.failure is None


def test_a_socket_that_is_lost_before_the_talk_began_ends_it_in_words() -> None:
    course = Conversation({})
    course.heard(Admitted("t", [], 15))
    course.heard(talk_state("priming", grant=""))
    course.disconnected(10.0)
    assert course.over and isinstance(course.failure, ServerFault)
    assert (course.failure.code, course.failure.sentence) == ("lost", GONE)


def test_a_lost_socket_resumes_by_the_newest_grant() -> None:
    course = talking()
    course.heard(talk_state(grant="g2"))
    course.disconnected(100.0)
    assert course.phase is Phase.CUT_OFF
    assert course.opening() == {"type": "resume", "grant": "g2", "path": "socket"}
    assert course.next_attempt(100.0) == 0.0
    course.heard(talk_state(grant="g3"))
    assert course.phase is Phase.TALKING
    course.disconnected(200.0)
    assert course.next_attempt(200.0) == 0.0, "a success starts the waits anew"
    assert course.seconds_left(200.0) == GRANT_SECONDS


def test_attempts_grow_rarer_and_end_with_the_grant() -> None:
    course = talking()
    course.disconnected(0.0)
    now, waits = 0.0, []
    while not course.over:
        waits.append(course.next_attempt(now))
        now += waits[-1] + 0.1
        course.disconnected(now)
    assert waits[:5] == [0.0, 0.25, 0.5, 1.0, 2.0] and set(waits[5:]) == {2.0}
    assert GRANT_SECONDS - 2.2 <= now <= GRANT_SECONDS + 2.2
    assert isinstance(course.failure, ServerFault) and course.failure.code == "lost"


def test_whoever_waits_in_line_with_a_grant_may_wait_longer() -> None:
    course = talking()
    course.disconnected(0.0)
    course.heard(Waiting(1, 1, 60.0, ""))
    course.disconnected(80.0)
    assert course.seconds_left(80.0) == GRANT_SECONDS


def test_a_full_server_is_asked_again_and_a_forgotten_grant_is_not() -> None:
    course = talking()
    course.disconnected(0.0)
    for answer in (Refused("no_capacity", "Full."), Ended("no_capacity", "Full.")):
        course.heard(answer)
        assert course.phase is Phase.CUT_OFF and course.retry
        course.disconnected(1.0)
        assert not course.retry
    course.heard(Refused("grant_unknown", "Too late."))
    assert isinstance(course.failure, SessionEnded)


def test_the_server_may_ask_us_to_resume_on_the_same_socket() -> None:
    course = talking()
    assert course.heard(Lost("g9", 25.0, "")) == [{"type": "resume", "grant": "g9", "path": "socket"}]
    assert course.phase is Phase.CUT_OFF
    assert course.heard(Admitted("t", [], 15)) == [{"type": "sound"}]
    assert course.phase is Phase.CUT_OFF, "until the talk goes on"


def test_a_socket_lost_in_the_line_is_the_end() -> None:
    course = Conversation({})
    course.heard(Waiting(2, 3, None, ""))
    course.disconnected(0.0)
    assert course.over and isinstance(course.failure, ServerFault)


def test_the_first_end_stands() -> None:
    course = talking()
    course.heard(Ended("limit", "Time is up."))
    course.disconnected(0.0)
    course.fail(ServerFault("Late."))
    assert course.over and course.failure is None and course.ended.code == "limit"


def test_who_is_overtaken_goes_back_to_the_line() -> None:
    course = Conversation({})
    course.heard(Admitted("t", [], 15))
    course.heard(Refused("no_capacity", "Somebody was quicker."))
    course.heard(Waiting(1, 1, None, ""))
    assert course.phase is Phase.ASKING and course.failure is None
    assert course.heard(Turn(30, "")) == [{"type": "answer"}]
    assert course.heard(Admitted("t", [], 15)) == [{"type": "sound"}]


@pytest.mark.parametrize(
    ("code", "kind"),
    [("unknown_voice", InvalidInput), ("no_capacity", NoCapacity), ("fault", ServerFault), ("no_answer", SessionEnded)],
)
def test_an_end_before_the_beginning_is_a_refusal(code: str, kind: type) -> None:
    course = Conversation({})
    course.heard(Admitted("t", [], 15))
    course.heard(Ended(code, "Why."))
    course.heard(Refused(code, "Why, again."))
    assert course.over and type(course.failure) is kind and course.failure.sentence == "Why."
