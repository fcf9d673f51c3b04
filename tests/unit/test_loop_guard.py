"""The guard on scripted talks: what it tells, when it steadies the sampling, and that it puts back what was there."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

import pytest

from personaplex_app.audio import FRAME_SECONDS
from personaplex_app.controls import MAX_PENALTY, SamplingSettings
from personaplex_app.engine.loop_guard import (
    NOTICED,
    PUT_BACK,
    REPEATS,
    SILENT,
    SILENT_FRAMES,
    STEADIED,
    STEADY_FRAMES,
    GuardAction,
    LoopGuard,
    steadied,
)
from personaplex_app.engine.repeats import WINDOW_FRAMES

CHOSEN = SamplingSettings(0.8, 0.7, 250, 25, 1.1)
OTHER = replace(CHOSEN, text_temperature=0.9)


def looping(word: str = "sorry", every: int = 3) -> Iterator[bytes]:
    """The same word for ever."""
    return itertools.cycle([b" " + word.encode(), *[b""] * (every - 1)])


def nothing() -> Iterator[bytes]:
    return itertools.repeat(b"")


@dataclass
class Watched:
    """A guard with its visitor."""

    guard: LoopGuard = field(default_factory=lambda: LoopGuard(True))
    chosen: SamplingSettings = CHOSEN
    speaks: bool = False
    frame: int = 0
    done: list[GuardAction] = field(default_factory=list)

    def go(self, pieces: Iterable[bytes], frames: int = 0, until: Callable[[], object] = lambda: False) -> None:
        """All of the pieces, so many of them, or until something holds."""
        for piece in itertools.islice(pieces, frames or None):
            action = self.guard.saw(piece, self.frame, self.speaks, self.chosen)
            self.frame += 1
            if action is not None:
                self.done.append(action)
            if until():
                return

    def tell(self, action: GuardAction | None) -> None:
        if action is not None:
            self.done.append(action)

    @property
    def holds(self) -> SamplingSettings:
        return self.guard.sampling(self.chosen)

    @property
    def actions(self) -> list[str]:
        return [each.action for each in self.done]


def alarmed(watched: Watched) -> Watched:
    watched.go(looping(), 200, lambda: watched.done)
    assert watched.done, "there was no alarm"
    return watched


def test_a_loop_is_told_steadied_for_three_seconds_and_put_back() -> None:
    watched = alarmed(Watched())
    (alarm,) = watched.done
    assert (alarm.action, alarm.reason, alarm.phrase) == (STEADIED, REPEATS, "sorry")
    assert alarm.sentence == 'The persona keeps saying "sorry". Its sampling is steadied for 3 s.'
    assert alarm.frame * FRAME_SECONDS < 5.0
    held = watched.holds
    assert held == SamplingSettings(0.8 * 0.75, 0.7 * 0.75, 250, 25, 1.1 + 0.3)
    for _ in range(STEADY_FRAMES - 1):
        watched.go(looping(), 1)
        assert watched.holds == held
    watched.go(nothing(), 1)
    assert watched.holds == CHOSEN and watched.done[1:] == [GuardAction(PUT_BACK, REPEATS, alarm.frame + STEADY_FRAMES)]
    assert 3.0 <= STEADY_FRAMES * FRAME_SECONDS < 3.0 + FRAME_SECONDS
    watched.go(nothing(), 1000)
    assert len(watched.done) == 2


def test_a_loop_that_goes_on_is_an_alarm_of_its_own_only_after_it_was_put_back() -> None:
    watched = Watched()
    watched.go(looping(), 300)
    assert watched.actions[:4] == [STEADIED, PUT_BACK, STEADIED, PUT_BACK]
    first, put_back, second = watched.done[:3]
    assert put_back.frame == first.frame + STEADY_FRAMES
    assert second.frame - put_back.frame >= 4 * 3, "it is judged afresh"


def test_a_slider_moved_meanwhile_holds_at_once_and_is_what_is_put_back() -> None:
    watched = alarmed(Watched())
    watched.chosen = OTHER
    steady = steadied(CHOSEN)
    assert watched.holds == replace(steady, text_temperature=0.9)
    watched.chosen = replace(OTHER, audio_top_k=7, repetition_penalty=1.0)
    assert watched.holds == replace(watched.chosen, audio_temperature=steady.audio_temperature)
    watched.go(nothing(), STEADY_FRAMES)
    assert watched.actions == [STEADIED, PUT_BACK] and watched.holds == watched.chosen


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (CHOSEN.greedy(), SamplingSettings(0.0, 0.0, 250, 25, 1.3)),
        (replace(CHOSEN, text_temperature=0.0), SamplingSettings(0.8 * 0.75, 0.0, 250, 25, 1.1 + 0.3)),
        (replace(CHOSEN, repetition_penalty=1.9), SamplingSettings(0.8 * 0.75, 0.7 * 0.75, 250, 25, MAX_PENALTY)),
    ],
)
def test_greedy_stays_greedy_and_no_value_leaves_its_range(before: SamplingSettings, after: SamplingSettings) -> None:
    watched = alarmed(Watched(chosen=before))
    assert watched.holds == after and watched.actions == [STEADIED]


def test_where_nothing_can_be_steadied_it_is_only_told() -> None:
    watched = alarmed(Watched(chosen=replace(CHOSEN.greedy(), repetition_penalty=MAX_PENALTY)))
    assert watched.actions == [NOTICED] and watched.holds == watched.chosen


def test_who_forbids_it_is_told_once_and_nothing_is_changed() -> None:
    watched = Watched(LoopGuard(False))
    watched.go(looping(), 500)
    assert watched.actions == [NOTICED] and watched.done[0].sentence == 'The persona keeps saying "sorry".'
    assert watched.holds == CHOSEN
    watched.go(nothing(), WINDOW_FRAMES + 2)
    watched.go(looping(), 100)
    assert watched.actions == [NOTICED, NOTICED], "another loop is another alarm"


def test_forbidden_meanwhile_it_is_put_back_at_once() -> None:
    watched = alarmed(Watched())
    watched.tell(watched.guard.allow(False, watched.frame))
    assert watched.actions == [STEADIED, PUT_BACK] and watched.holds == CHOSEN
    watched.tell(watched.guard.allow(False, watched.frame))
    watched.go(nothing(), STEADY_FRAMES)
    assert len(watched.done) == 2


def test_allowed_while_an_alarm_holds_it_helps_at_once() -> None:
    watched = alarmed(Watched(LoopGuard(False)))
    watched.tell(watched.guard.allow(True, watched.frame))
    watched.go(looping(), 6)
    assert watched.actions == [NOTICED, STEADIED] and watched.holds == steadied(CHOSEN)


def test_half_a_minute_of_the_visitor_s_speech_without_a_word_is_an_alarm() -> None:
    watched = Watched(speaks=True)
    watched.go(nothing(), SILENT_FRAMES)
    assert watched.done == []
    watched.go(nothing(), 1)
    assert watched.done == [GuardAction(STEADIED, SILENT, SILENT_FRAMES)]
    assert "You spoke for 30 s" in watched.done[0].sentence
    watched.go(nothing(), STEADY_FRAMES + SILENT_FRAMES)
    assert watched.actions == [STEADIED, PUT_BACK]
    watched.go(nothing(), 1)
    assert watched.actions == [STEADIED, PUT_BACK, STEADIED], "still mute half a minute later"


def test_only_padding_while_the_visitor_speaks_counts() -> None:
    watched = Watched()
    watched.go(nothing(), 5000)
    assert watched.done == [], "both are silent"
    for _ in range(10):
        watched.speaks = True
        watched.go(nothing(), SILENT_FRAMES // 2)
        watched.speaks = False
        watched.go([b" Hm", *[b""] * 50])
    assert watched.done == [], "a word now and then is an answer"
    for _ in range(3):
        watched.speaks = True
        watched.go(nothing(), SILENT_FRAMES // 2)
        watched.speaks = False
        watched.go(nothing(), 100)
    assert watched.actions == [STEADIED, PUT_BACK] and watched.done[0].reason == SILENT, "asked again and again"


def test_silence_that_is_only_told_is_told_once_until_a_word_comes() -> None:
    watched = Watched(LoopGuard(False), speaks=True)
    watched.go(nothing(), 3 * SILENT_FRAMES)
    assert watched.actions == [NOTICED]
    watched.go([b" Oh"])
    watched.go(looping(), 30)
    assert [each.reason for each in watched.done] == [SILENT, REPEATS]


def test_where_nobody_has_words_silence_means_nothing() -> None:
    watched = Watched(LoopGuard(True, has_words=False), speaks=True)
    watched.go(nothing(), 3 * SILENT_FRAMES)
    assert watched.done == []


def test_a_long_answer_and_a_long_story_are_no_alarm() -> None:
    answer = (
        "Well, yes, yes, I see. One, two, three: that is how we count. You spell it B E E, and they sing la la la la, "
        "and then, and then, and then they stop. It is very, very old, and the oldest of the old songs of the old town "
        "that I know, and I know them all, or I know that I know most of them. Now, what about you?"
    )
    pieces = itertools.chain.from_iterable([b" " + word.encode(), b"", b""] for word in answer.split())
    watched = Watched()
    for _ in range(3):
        watched.go(list(pieces))
    watched.speaks = True
    watched.go(nothing(), SILENT_FRAMES - 1)
    watched.go([b" I", b" see"])
    assert watched.done == [] and watched.holds == CHOSEN
