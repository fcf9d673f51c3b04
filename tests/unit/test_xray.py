"""Scripted decisions become exact figures; whatever is decided, the figures fit together and stay small."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.decisions import scripted

from personaplex_app.records.speech_turns import SpeechTurns
from personaplex_app.records.transcript import Transcript
from personaplex_app.records.turn_taking import (
    OTHER,
    PERSONA,
    SIDES,
    YOU,
    Interruption,
    Transfer,
    TurnTaking,
    Utterance,
)
from personaplex_app.records.xray import MOST_MARKS, MOST_SEGMENTS, xray

# A frame is 80 ms; 25 of them are 2 s.
SPEAKS, PAUSE = "#", " "


def line(*lengths: int) -> str:
    """Speech, pause, speech, ... in frames."""
    return "".join((SPEAKS if at % 2 == 0 else PAUSE) * length for at, length in enumerate(lengths))


def taking(**sides: str) -> TurnTaking:
    return scripted(**sides).taking()


def test_a_talk_with_one_of_everything() -> None:
    #      you: 25 frames, the persona answers 5 frames later; "mm-hm" into it; you break in and the persona gives way
    you = line(25, 15, 5, 20, 30, 65)
    persona = PAUSE * 30 + line(42)
    persona += PAUSE * (100 - len(persona)) + line(10, 7, 10)  # 5 frames after you, with a pause of 0.56 s in the midst
    transcript = Transcript()
    transcript.note("steadied", "repeats", "no", "Steadied.", 50)
    transcript.note("began", "echo", "", "Headphones.", 60)
    found = xray(scripted(you=you, persona=persona), transcript.remarks)
    assert found is not None
    assert found["seconds"] == 12.8
    both = {"overlap_seconds": 0.96, "silence_seconds": 4.0, "silences": 1, "longest_silence_seconds": 2.64}
    none = {"count": 0, "median_seconds": None, "p90_seconds": None, "longest_seconds": None}
    one = {"count": 2, "median_seconds": 0.4, "p90_seconds": 0.4, "longest_seconds": 0.4}
    assert found["figures"] == {
        "you": {
            "talk_seconds": 4.8,
            "talk_share": 0.492,
            "turns": 2,
            "longest_turn_seconds": 2.4,
            "backchannels": 1,
            "interruptions": 1,
            "other_yielded": 1,
            "gaps": none,
            "transfers": {"count": 1, "median_seconds": -0.56, "p90_seconds": -0.56, "longest_seconds": -0.56},
            "loudness_dbfs": -20.0,
        },
        "persona": {
            "talk_seconds": 4.96,
            "talk_share": 0.508,
            "turns": 2,
            "longest_turn_seconds": 3.36,
            "backchannels": 0,
            "interruptions": 0,
            "other_yielded": 0,
            "gaps": one,
            "transfers": one,
            "loudness_dbfs": -20.0,
        },
        "both": both,
    }
    assert found["segments"]["persona"] == [[2.4, 5.76], [8.0, 8.8], [9.36, 10.16]]
    assert found["marks"] == [
        {"second": 4.0, "kind": "guard", "action": "steadied", "reason": "repeats"},
        {"second": 4.8, "kind": "echo", "action": "began", "reason": "echo"},
        {"second": 5.2, "kind": "interruption", "by": "you", "yielded": "persona"},
    ]


def test_a_backchannel_takes_no_floor_and_an_interruption_that_fails_leaves_it() -> None:
    nodded = taking(persona=line(60), you=PAUSE * 20 + line(12))
    assert [one.side for one in nodded.turns] == [PERSONA]
    assert nodded.backchannels == [Utterance(YOU, 20, 32)] and nodded.interruptions == []
    failed = taking(persona=line(60, 10, 20), you=PAUSE * 20 + line(20))
    assert failed.interruptions == [Interruption(YOU, 20, YOU)]
    assert failed.turns == [Utterance(PERSONA, 0, 90), Utterance(YOU, 20, 40)]
    assert failed.transfers == []
    stopped = taking(persona=line(24), you=PAUSE * 20 + line(8))  # short, but the other stops for it
    assert stopped.interruptions == [Interruption(YOU, 20, PERSONA)] and stopped.backchannels == []


def test_an_overlap_of_two_frames_is_how_people_take_turns() -> None:
    soft = taking(persona=line(30), you=PAUSE * 28 + line(20))
    assert soft.interruptions == [] and soft.transfers == [Transfer(YOU, 28, -2)]
    hard = taking(persona=line(30), you=PAUSE * 27 + line(20))
    assert hard.interruptions == [Interruption(YOU, 27, PERSONA)]


def test_two_seconds_of_silence_end_a_turn_and_less_does_not() -> None:
    assert len(taking(you=line(10, 24, 10)).turns) == 1
    assert len(taking(you=line(10, 25, 10)).turns) == 2


def test_the_ninetieth_percentile_is_one_of_ten() -> None:
    you = persona = ""
    for gap in (1, 2, 3, 4, 5, 6, 7, 8, 9, 20):
        you += line(14, gap + 14)
        persona += PAUSE * (14 + gap) + line(14)
        you, persona = you + PAUSE * 30, persona + PAUSE * 30
    found = xray(scripted(you=you, persona=persona))
    assert found is not None
    gaps = found["figures"]["persona"]["gaps"]
    assert gaps == {"count": 10, "median_seconds": 0.44, "p90_seconds": 0.72, "longest_seconds": 1.6}


def test_nothing_is_said_of_less_than_five_seconds() -> None:
    assert xray(scripted(you=line(62))) is None
    assert xray(scripted(you=line(63))) is not None
    assert xray(SpeechTurns()) is None


def test_the_worst_half_hour_stays_below_a_hundred_thousand_bytes() -> None:
    rng, frames = np.random.default_rng(0), 22_500
    transcript = Transcript()
    for frame in range(0, frames, 20):
        transcript.note("put_back", "repeats", "no", "Your own sampling holds again.", frame)
    flicker = {side: "".join(rng.choice([SPEAKS, PAUSE], frames, p=[0.6, 0.4])) for side in SIDES}
    found = xray(scripted(**flicker), transcript.remarks)
    assert found is not None
    assert len(json.dumps(found)) < 100_000
    assert len(found["segments"]["you"]) == MOST_SEGMENTS and len(found["marks"]) == MOST_MARKS


SCRIPTS = st.lists(st.tuples(st.sampled_from([SPEAKS, PAUSE]), st.integers(1, 40)), min_size=1, max_size=30).map(
    lambda parts: "".join(kind * length for kind, length in parts)
)


@settings(max_examples=200, deadline=None)
@given(you=SCRIPTS, persona=SCRIPTS, cut=st.integers(0, 1200))
def test_figures_fit_together(you: str, persona: str, cut: int) -> None:
    frames = max(len(you), len(persona), 63)
    lines = {YOU: you.ljust(frames), PERSONA: persona.ljust(frames)}
    spoke = scripted(**lines, look_at=cut)  # looking at it meanwhile changes nothing
    found = xray(spoke)
    assert found is not None
    figures, spoken = found["figures"], spoke.taking()
    for side in SIDES:
        own, speech = figures[side], spoke.speech(side)
        assert own["talk_seconds"] == round(speech.sum() * 0.08, 2)
        assert not speech[[at for at, kind in enumerate(lines[side]) if kind == PAUSE]].any()
        in_segments = sum(round((end - start) / 0.08) for start, end in found["segments"][side])
        assert in_segments == speech.sum()
        assert own["other_yielded"] <= own["interruptions"]
        assert own["gaps"]["count"] <= own["transfers"]["count"] <= own["turns"]
    alone = sum(figures[side]["talk_seconds"] for side in SIDES) - figures["both"]["overlap_seconds"]
    assert abs(alone + figures["both"]["silence_seconds"] - found["seconds"]) < 0.05
    starts = [turn.start for turn in spoken.turns]
    assert starts == sorted(starts)
    # what came in one go is what comes bit by bit
    whole = TurnTaking()
    for one in sorted(utterances(lines), key=lambda one: (one.start, one.side)):
        whole.add(one)
    assert (whole.turns, whole.backchannels) == (spoken.turns, spoken.backchannels)
    assert (whole.interruptions, whole.transfers) == (spoken.interruptions, spoken.transfers)
    for one in spoken.interruptions:
        assert lines[one.by][one.frame] == SPEAKS
        assert SPEAKS in lines[OTHER[one.by]][: one.frame]


def utterances(lines: dict[str, str]) -> list[Utterance]:
    """Straight from the definition: stretches of speech, joined over less than 0.5 s, of two frames at least."""
    found = []
    for side, said in lines.items():
        joined: list[list[int]] = []
        for at, kind in enumerate(said):
            if kind != SPEAKS:
                continue
            if joined and at - joined[-1][-1] <= 7:
                joined[-1].append(at)
            else:
                joined.append([at])
        found += [Utterance(side, one[0], one[-1] + 1) for one in joined if len(one) >= 2]
    return found
