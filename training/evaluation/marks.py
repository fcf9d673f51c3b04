"""What a talk was worth: each exchange marked, all talks in one table.

In: exchanges, the persona's words and loud frames, what a listener heard. Out: `Mark`s, figures, Markdown.
Must not know: models, sound.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from training.evaluation.caller import FRAME_SECONDS, Exchange
from training.evaluation.words import is_heard_right, is_right

SILENT_SECONDS = 3.0
YIELD_SECONDS = 1.0
QUIET_RUN = 4  # frames: a pause within a sentence is shorter


@dataclass(frozen=True)
class Mark:
    """One exchange, judged.

    Attributes:
        answer_seconds: from the question's end to the first sound of the answer; None where there is none.
        yield_seconds: from an interruption's beginning to silence; None where nothing was interrupted.
        right: the text is a right answer, word for word. heard_right: Whisper hears it too, give or take a fifth.
        counts: whether it was a question whose answer could be heard out.
    """

    talk: str
    voice: str
    line: str
    intent: str
    question: str
    expected: str
    text: str
    heard: str
    right: bool
    heard_right: bool
    answer_seconds: float | None
    yield_seconds: float | None
    counts: bool

    @property
    def silent(self) -> bool:
        """Whether nothing was said for more than three seconds."""
        return self.answer_seconds is None or self.answer_seconds > SILENT_SECONDS


def answer_seconds(exchange: Exchange, loud: list[bool]) -> float | None:
    """From the end of the question to the first loud frame of the persona after it."""
    for frame in range(exchange.ends + 1, exchange.until):
        if loud[frame]:
            return (frame - exchange.ends) * FRAME_SECONDS
    return None


def yield_seconds(exchange: Exchange, loud: list[bool]) -> float | None:
    """From the beginning of an interruption to the persona's silence."""
    if not exchange.interrupts:
        return None
    for frame in range(exchange.begins, len(loud) - QUIET_RUN):
        if not any(loud[frame : frame + QUIET_RUN]):
            return (frame - exchange.begins) * FRAME_SECONDS
    return (len(loud) - exchange.begins) * FRAME_SECONDS


def mark(
    exchange: Exchange, answers: list[list[str]], text: str, heard: str, loud: list[bool], names: dict[str, str]
) -> Mark:
    """Judges one exchange; a wrong name in a long sentence is not right because the rest was heard."""
    right = is_right(text, answers)
    return Mark(
        talk=names["talk"],
        voice=names["voice"],
        line=names["line"],
        intent=exchange.asked.intent,
        question=exchange.asked.text,
        expected=" ".join(answers[0]),
        text=text,
        heard=heard,
        right=right,
        heard_right=right and is_heard_right(heard, answers),
        answer_seconds=answer_seconds(exchange, loud),
        yield_seconds=yield_seconds(exchange, loud),
        counts=not exchange.cut,
    )


def figures(marks: list[Mark]) -> dict[str, Any]:
    """The numbers of the table."""
    counted = [one for one in marks if one.counts]
    begun = [one.answer_seconds for one in counted if one.answer_seconds is not None]
    yields = [one.yield_seconds for one in marks if one.yield_seconds is not None]
    return {
        "questions": len(counted),
        "right": sum(one.right for one in counted),
        "heard_right": sum(one.heard_right for one in counted),
        "silent": sum(one.silent for one in counted),
        "answer_median_s": round(statistics.median(begun), 2) if begun else None,
        "interruptions": len(yields),
        "yielded": sum(one <= YIELD_SECONDS for one in yields),
        "slowest_yield_s": round(max(yields), 2) if yields else None,
    }


def by(marks: list[Mark], key: str) -> dict[str, tuple[int, int, int]]:
    """Questions, right and heard right, by a field of the marks."""
    found: dict[str, list[Mark]] = defaultdict(list)
    for one in marks:
        if one.counts:
            found[str(getattr(one, key))].append(one)
    return {
        name: (len(each), sum(one.right for one in each), sum(one.heard_right for one in each))
        for name, each in sorted(found.items())
    }


def _of(part: int, whole: int) -> str:
    return f"{part} of {whole} ({100 * part / whole:.0f} %)" if whole else "none"


def table(marks: list[Mark], extra: dict[str, Any]) -> str:
    """Markdown: the goals' figures, then questions by voice, line, talk and intent."""
    made = figures(marks)
    rows = [
        ("right by text", _of(made["right"], made["questions"])),
        ("right as heard by Whisper", _of(made["heard_right"], made["questions"])),
        (f"silent for more than {SILENT_SECONDS:.0f} s", _of(made["silent"], made["questions"])),
        ("answer begins, median", f"{made['answer_median_s']} s"),
        (f"yields within {YIELD_SECONDS:.0f} s", _of(made["yielded"], made["interruptions"])),
        *((name, str(value)) for name, value in extra.items()),
    ]
    lines = ["| what | figure |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows)]
    for key in ("voice", "line", "talk", "intent"):
        lines += ["", f"| {key} | questions | right | heard right |", "| --- | --- | --- | --- |"]
        lines += [f"| {name} | {n} | {right} | {heard} |" for name, (n, right, heard) in by(marks, key).items()]
    return "\n".join(lines) + "\n"
