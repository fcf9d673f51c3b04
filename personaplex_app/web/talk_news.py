"""What happened in a talk and was not told yet: words, turns, what its loop guard did, what its echo guard found.

In: a session with those who look on at it. Out: messages as docs/protocol.md tells them, each once, and each made when
it is its turn to be sent. None grows with the talk, in length or in time. Must not know: sockets, when they are sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from personaplex_app.audio import FRAME_SECONDS
from personaplex_app.engine.session import Session, SessionState
from personaplex_app.records.transcript import Remark
from personaplex_app.records.turn_taking import YOU
from personaplex_app.records.turns import News
from personaplex_app.records.xray import ECHO
from personaplex_app.web.looking import Looking

Told: TypeAlias = tuple[str, dict[str, Any]]  # a type and its fields


class TalkNews:
    """Of one talk: one that is resumed is told from its beginning, one that is started over is another."""

    def __init__(self) -> None:
        self._letters = ""
        self._turns = News()
        self._remarks = self._guards = self._leaks = 0

    def of(self, session: Session, looking: Looking | None) -> Iterator[Told]:
        """What is new, in order."""
        yield from self._words(session.transcript.text)
        yield from self._said(session, looking)
        yield from self._guard(session.transcript.remarks)
        if looking is not None:
            yield from self._echo(looking)

    def _words(self, text: str) -> Iterator[Told]:
        if text == self._letters:
            return
        goes_on = bool(self._letters) and text.startswith(self._letters)
        fresh = text[len(self._letters) :] if goes_on else text
        self._letters = text
        yield "words", {"text": fresh, "from_start": not goes_on}

    def _said(self, session: Session, looking: Looking | None) -> Iterator[Told]:
        frames, over = session.counters.stepped, session.state is SessionState.ENDED
        speech = looking.turns.speech(YOU) if looking else ()
        for turn in self._turns.of(session.transcript.turns, speech, frames, over):
            start, end = turn.start_seconds, turn.end_seconds
            yield "said", {"number": turn.number, "who": turn.who, "text": turn.text, "start": start, "end": end}

    def _guard(self, remarks: list[Remark]) -> Iterator[Told]:
        for remark in remarks[self._remarks :]:
            self._remarks += 1
            if remark.reason == ECHO:
                continue  # told by the echo guard, which knows more of it
            number, self._guards = self._guards, self._guards + 1
            yield (
                "guard",
                {
                    "number": number,
                    "action": remark.action,
                    "reason": remark.reason,
                    "phrase": remark.phrase,
                    "second": remark.at_seconds,
                    "sentence": remark.sentence,
                },
            )

    def _echo(self, looking: Looking) -> Iterator[Told]:
        for leak in looking.echo.leaks[self._leaks :]:
            number, self._leaks = self._leaks, self._leaks + 1
            yield (
                "echo",
                {
                    "number": number,
                    "action": leak.action,
                    "lag_ms": leak.lag_ms,
                    "level_db": leak.level_db,
                    "second": round(leak.frame * FRAME_SECONDS, 3),
                    "sentence": leak.sentence,
                },
            )
