"""Captions that other programs read back: times, texts shown literally, and the mark that they are synthetic."""

from __future__ import annotations

import html
import itertools
import re
from pathlib import Path

import av
import pytest
from hypothesis import given
from hypothesis import strategies as st

from personaplex_app.records.captions import MOST_LETTERS, NOT_MARKUP, SYNTHETIC, YOU_SPEAK, cues_of, srt, vtt
from personaplex_app.records.turn_taking import PERSONA, YOU
from personaplex_app.records.turns import Turn

TURNS = [
    Turn(PERSONA, 0, "Hello <b>there</b> & so on --> {x}.", 0.4, 2.0),
    Turn(YOU, 0, "", 2.4, 4.0),
    Turn(PERSONA, 1, "Bye.", 4.2, None),
]
SECONDS = 6.0
TIME = r"(\d\d):([0-5]\d):([0-5]\d)[,.](\d{3})"


def seconds_in(text: str) -> float:
    hours, minutes, seconds, ms = map(int, re.fullmatch(TIME, text).groups())
    return 3600 * hours + 60 * minutes + seconds + ms / 1000


def read_srt(text: str) -> list[tuple[float, float, str]]:
    """As strict as can be: a number, the times, one line of text, an empty line."""
    found = []
    for number, block in enumerate(text.strip().split("\n\n"), 1):
        head, times, words = block.split("\n")
        assert head == str(number)
        start, end = times.split(" --> ")
        found.append((seconds_in(start), seconds_in(end), words.replace(NOT_MARKUP, "")))
    return found


def read_vtt(text: str) -> list[tuple[float, float, str, str]]:
    head, note, *blocks = text.strip().split("\n\n")
    assert head == f"WEBVTT - {SYNTHETIC}" and note == f"NOTE\n{SYNTHETIC}"
    found = []
    for block in blocks:
        times, words = block.split("\n")
        start, end = times.split(" --> ")
        who, said = re.fullmatch(r"<v (Persona|You)>([^<>]*)", words).groups()
        found.append((seconds_in(start), seconds_in(end), who, html.unescape(said)))
    return found


def test_srt_says_who_spoke_when_and_that_it_is_synthetic() -> None:
    mark, *cues = read_srt(srt(cues_of(TURNS, SECONDS)))
    assert mark == (0.0, 2.0, f"[{SYNTHETIC}]")
    assert cues == [
        (0.4, 2.4, "Hello <b>there</b> & so on --> {x}."),
        (2.4, 4.4, YOU_SPEAK),
        (4.2, 6.0, "Bye."),
    ]


def test_vtt_says_the_same() -> None:
    assert read_vtt(vtt(cues_of(TURNS, SECONDS))) == [
        (0.4, 2.4, "Persona", "Hello <b>there</b> & so on --> {x}."),
        (2.4, 4.4, "You", YOU_SPEAK),
        (4.2, 6.0, "Persona", "Bye."),
    ]


@pytest.mark.parametrize(("write", "kind"), [(srt, "srt"), (vtt, "vtt")])
def test_another_program_reads_them_at_the_same_times(tmp_path: Path, write, kind: str) -> None:
    path = tmp_path / f"talk.{kind}"
    path.write_text(write(cues_of(TURNS, SECONDS)), encoding="utf-8")
    with av.open(str(path)) as container:
        stream = container.streams.subtitles[0]
        packets = [packet for packet in container.demux(stream) if packet.size]
        found = [
            (float(packet.pts * stream.time_base), float(packet.duration * stream.time_base)) for packet in packets
        ]
    assert found[-3:] == [(0.4, 2.0), (2.4, 2.0), (4.2, 1.8)]
    assert len(found) == 3 + (kind == "srt")


def test_a_long_turn_is_told_in_several_captions_that_share_its_time() -> None:
    text = " ".join(["word"] * 60)
    cues = cues_of([Turn(PERSONA, 0, text, 1.0, 25.0)], 30.0)
    assert len(cues) == 4 and " ".join(cue.text for cue in cues) == text
    assert all(len(cue.text) <= MOST_LETTERS for cue in cues)
    assert cues[0].start_seconds == 1.0 and cues[-1].end_seconds == pytest.approx(25.4)
    assert all(one.end_seconds == two.start_seconds for one, two in itertools.pairwise(cues))


def test_a_short_turn_can_be_read() -> None:
    cues = cues_of([Turn(PERSONA, 0, "Hm.", 1.0, 1.08)], 1.1)
    assert read_srt(srt(cues))[1:] == [(1.0, 1.8, "Hm.")]


def test_a_turn_of_no_end_and_hours_are_written_as_they_should() -> None:
    assert read_srt(srt(cues_of([Turn(PERSONA, 0, "Late.", 3725.5, None)], 3728.0)))[1][:2] == (3725.5, 3728.0)


LETTERS = st.text(st.characters(exclude_categories=("Cs", "Cc")) | st.sampled_from("<>&{}-\n\t "), max_size=300)


@st.composite
def talks(draw: st.DrawFn) -> list[Turn]:
    at, turns = 0.0, []
    for number in range(draw(st.integers(0, 8))):
        at = round(at + draw(st.floats(0, 3)), 3)
        end = round(at + draw(st.floats(0.08, 20)), 3)
        text = draw(LETTERS)
        turns.append(Turn(PERSONA, number, text, at, end) if text.strip() else Turn(YOU, number, "", at, end))
        at = end
    return turns


@given(talks())
def test_whatever_is_said_reads_back_word_by_word(turns: list[Turn]) -> None:
    cues = cues_of(turns, 1000.0)
    said = "".join("".join(turn.text.split()) for turn in turns)
    for found in (
        [words for _, _, words in read_srt(srt(cues))[1:]],
        [words for _, _, _, words in read_vtt(vtt(cues))],
    ):
        assert "".join("".join(words.split()) for words in found if words != YOU_SPEAK) == said
    starts = [start for start, _, _ in read_srt(srt(cues))[1:]]
    assert starts == sorted(starts)
    assert all(start <= end for start, end, _ in read_srt(srt(cues)))
