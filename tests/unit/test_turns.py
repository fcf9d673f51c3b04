"""The persona's words as turns: ended by a second of padding, never within a word, told where they changed."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from personaplex_app.records.transcript import Transcript
from personaplex_app.records.turn_taking import PERSONA, YOU
from personaplex_app.records.turns import (
    MOST_LETTERS,
    PAUSE_FRAMES,
    WORD_FRAMES,
    News,
    PersonaTurns,
    SideNews,
    Turn,
    VisitorTurns,
)

PIECES = st.sampled_from([b" Hel", b"lo", b" wor", b"ld.", b" ", *[bytes([byte]) for byte in " 😀é".encode()], b"<b>"])


def said(*pieces: tuple[int, bytes]) -> Transcript:
    """Pieces, each after so many frames of padding."""
    transcript, frame = Transcript(), 0
    for padding, piece in pieces:
        frame += padding
        transcript.add(piece, frame)
        frame += 1
    return transcript


def texts(transcript: Transcript, frames: int = 10_000) -> list[str]:
    return [turn.text for turn in transcript.turns.turns(frames)]


def test_a_second_of_padding_ends_a_turn_and_a_frame_less_does_not() -> None:
    transcript = said((4, b" Hello"), (3, b" there."), (PAUSE_FRAMES - 1, b" Yes?"), (PAUSE_FRAMES, b" Goodbye."))
    first, second = transcript.turns.turns(37)
    assert first == Turn(PERSONA, 0, "Hello there. Yes?", 0.32, 1.76)
    assert second == Turn(PERSONA, 1, "Goodbye.", 2.8, None), "it may go on"
    assert transcript.turns.turns(36 + PAUSE_FRAMES)[1].end_seconds == 2.88, "nothing more came for a second"
    assert transcript.turns.turns(37, over=True)[1].end_seconds == 2.88, "and nothing more will"


def test_a_split_word_stays_whole_across_a_pause_and_its_turn_goes_on() -> None:
    transcript = said((0, b" won"), (PAUSE_FRAMES + 3, b"derful"), (1, b" day"))
    assert texts(transcript) == ["wonderful day"]
    turns = said((0, b" won")).turns
    assert turns.turns(PAUSE_FRAMES + 1)[0].end_seconds == 0.08
    turns.add("derful", PAUSE_FRAMES + 4, begins_word=False)
    assert turns.turns(PAUSE_FRAMES + 5)[0].end_seconds is None
    assert texts(said((0, b" won"), (WORD_FRAMES, b"derful"))) == ["won", "derful"], "that was no word any more"


def test_a_turn_without_end_becomes_several_and_no_message_grows_with_the_talk() -> None:
    words = [b" word%04d" % number for number in range(2_000)]
    transcript, news = Transcript(), SideNews()
    told = []
    for frame, word in enumerate(words):
        transcript.add(word, 3 * frame)
        told += news.of(transcript.turns, 3 * frame + 1)
    assert max(len(turn.text) for turn in told) < MOST_LETTERS + 10
    turns = transcript.turns.turns(6_000, over=True)
    assert " ".join(turn.text for turn in turns).split() == [word.decode().strip() for word in words]
    assert all(one.end_seconds is not None and one.end_seconds <= two.start_seconds for one, two in pairwise(turns))
    endless = said(*[(2, b"oh")] * 1_500)
    assert [len(text) for text in texts(endless)] == [2 * MOST_LETTERS, 3_000 - 2 * MOST_LETTERS]


def test_letters_in_bytes_are_never_cut_by_a_turn() -> None:
    smile = " 😀".encode()
    transcript = said((0, b" Hi"), (PAUSE_FRAMES, smile[:1]), *[(1, bytes([byte])) for byte in smile[1:]])
    assert texts(transcript) == ["Hi", "😀"]


def test_markup_is_text() -> None:
    assert texts(said((0, b" <b>x</b>"), (1, b" &amp;"))) == ["<b>x</b> &amp;"]


def test_nothing_is_shown_of_a_turn_without_a_letter() -> None:
    turns = said((0, b" ")).turns
    assert turns.turns(5) == [] and SideNews().of(turns, 5) == []
    turns.add("So", 2, begins_word=False)
    assert [turn.text for turn in turns.turns(5)] == ["So"]


def test_only_what_changed_is_told_and_all_of_it_to_who_comes_new() -> None:
    transcript, news = Transcript(), SideNews()
    assert news.of(transcript.turns, 1) == []
    transcript.add(b" One", 0)
    assert [turn.text for turn in news.of(transcript.turns, 1)] == ["One"]
    assert news.of(transcript.turns, 2) == []
    transcript.add(b" two.", 2)
    assert [turn.text for turn in news.of(transcript.turns, 3)] == ["One two."]
    transcript.add(b" Three.", 30)
    told = news.of(transcript.turns, 31)
    assert [(turn.number, turn.end_seconds) for turn in told] == [(0, 0.24), (1, None)]
    assert [turn.end_seconds for turn in news.of(transcript.turns, 31, over=True)] == [2.48]
    assert SideNews().of(transcript.turns, 31, over=True) == transcript.turns.turns(31, over=True)


@given(st.lists(st.tuples(st.integers(0, 60), PIECES), max_size=40))
def test_whatever_comes_the_turns_hold_all_words_in_order_and_their_times_do_not_cross(
    pieces: list[tuple[int, bytes]],
) -> None:
    transcript, news, told = Transcript(), SideNews(), {}
    frame = 0
    for padding, piece in pieces:
        frame += padding
        transcript.add(piece, frame)
        frame += 1
        told |= {turn.number: turn for turn in news.of(transcript.turns, frame)}
    told |= {turn.number: turn for turn in news.of(transcript.turns, frame, over=True)}
    turns = transcript.turns.turns(frame, over=True)
    assert list(told.values()) == turns, "who was told each change knows all"
    shown = "".join(turn.text for turn in turns)
    assert shown.replace(" ", "") == transcript.text.replace(" ", "")
    times = [second for turn in turns for second in (turn.start_seconds, turn.end_seconds)]
    assert times == sorted(times) and None not in times


def test_a_turn_never_begins_without_a_piece() -> None:
    assert len(PersonaTurns()) == 0 and PersonaTurns().turns(1_000, over=True) == []


# The visitor's.


def spoken(*runs: int) -> list[bool]:
    """Frames of silence and of speech by turns, silence first."""
    return [bool(number % 2) for number, frames in enumerate(runs) for _ in range(frames)]


def test_the_visitor_s_turns_are_known_by_their_times_alone() -> None:
    visitor = VisitorTurns()
    visitor.follow(spoken(5, 10, PAUSE_FRAMES - 1, 4, PAUSE_FRAMES, 6))
    frames = 50
    assert visitor.turns(frames) == [Turn(YOU, 0, "", 0.4, 2.48), Turn(YOU, 1, "", 3.52, None)]
    assert visitor.turns(frames + PAUSE_FRAMES)[1].end_seconds == 4.0
    assert [turn.number for turn in SideNews().of(visitor, frames)] == [0, 1]


def test_a_click_is_no_turn_and_takes_no_number() -> None:
    visitor = VisitorTurns()
    visitor.follow(spoken(5, 1, 30, 4))
    assert [(turn.number, turn.start_seconds) for turn in visitor.turns(40)] == [(0, 2.88)]


def test_a_frame_that_turns_out_to_be_speech_afterwards_is_counted_once() -> None:
    visitor, at_once = VisitorTurns(), VisitorTurns()
    visitor.follow(spoken(10))
    visitor.follow(spoken(7, 5))
    visitor.follow(spoken(7, 5, 2, 1))
    at_once.follow(spoken(7, 5, 2, 1))
    assert visitor.turns(15) == at_once.turns(15) == [Turn(YOU, 0, "", 0.56, None)]


@given(st.lists(st.integers(0, 40), max_size=12), st.integers(1, 30))
def test_the_visitor_s_turns_do_not_depend_on_when_somebody_looks(runs: list[int], step: int) -> None:
    speech, looked, at_once = spoken(*runs), VisitorTurns(), VisitorTurns()
    for end in range(0, len(speech), step):
        looked.follow(speech[:end])
    looked.follow(speech)
    at_once.follow(speech)
    assert looked.turns(len(speech)) == at_once.turns(len(speech))


def test_both_sides_changes_come_together() -> None:
    transcript, news, speech = said((2, b" Hello.")), News(), spoken(4, 6)
    told = news.of(transcript.turns, speech, 10)
    assert [(turn.who, turn.start_seconds, turn.end_seconds) for turn in told] == [
        (PERSONA, 0.16, None),
        (YOU, 0.32, None),
    ]
    assert news.of(transcript.turns, speech, 11) == []
    assert [turn.end_seconds for turn in news.of(transcript.turns, speech, 11, over=True)] == [0.24, 0.8]
