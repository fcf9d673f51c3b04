"""Talks as tokens: prompt frames, then a user track with an agent of its own, new at every draw.

In: agents' codes, user tracks, a tokenizer. Out: `Talk`, int16 [17, T] by frame (delays not yet applied).
Must not know: torch, the network.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from personaplex_app.model.config import AGENT, STREAMS, TEXT_END_OF_PADDING, TEXT_PADDING, USER
from personaplex_app.model.prompts import SILENCE_FRAMES, wrap_prompt
from training.encode.shelves import Agents, Codes, Constants
from training.language.renderings import Renderings, Spoken
from training.talks.agent import AgentSide, Line
from training.talks.tracks import Track, Turn
from training.world.personas import draw_persona

VOICE_FRAMES = (18, 42)  # of a voice prompt
FROM_THE_START = 0.4  # of the talks begin where the call began; the others in its middle
BEFORE_A_TURN = (2, 12)  # frames
NOTHING = -1
WORD_DELAY = 4  # frames from a word's end, as far as it can be told, to its token
ENOUGH_TO_SAY = 12  # characters of a sentence that a voice prompt takes


@dataclass(frozen=True)
class Talk:
    """One example.

    Attributes:
        tokens: int16 [17, T] by frame. prompt: how many frames of it are prompt. skipped: frames of the call that lie
            between prompt and what follows. speaking: bool [T], where the agent speaks.
        heard: int16 [T], tokens of the user's words, each a little after it is said; elsewhere `NOTHING`.
    """

    tokens: npt.NDArray[np.int16]
    prompt: int
    skipped: int
    speaking: npt.NDArray[np.bool_]
    heard: npt.NDArray[np.int16]


class Assembler:
    """Draws talks.

    Args:
        encode: text -> token ids.
    """

    def __init__(
        self,
        agents: Agents,
        constants: Constants,
        user_codes: list[Codes],
        tracks: list[Track],
        encode: Any,
        seed: int,
    ) -> None:
        self._agents, self._by_voice = agents, agents.by_voice()
        self._renderings = Renderings(agents)
        self._user_codes, self._tracks, self._encode = user_codes, tracks, encode
        self._silence = np.array(constants.silence, np.int16)[:, None]
        self._sine = np.array(constants.sine, np.int16)[:, None]
        self._rng = Random(seed)
        self._words: dict[str, list[int]] = {}

    def reseed(self, seed: int) -> None:
        """Other talks from now on."""
        self._rng = Random(seed)

    def draw(self, positions: int) -> Talk:
        """A talk of so many frames, prompt included."""
        number = self._rng.randrange(len(self._tracks))
        track = self._tracks[number]
        persona = draw_persona(self._rng, track.style, track.products)
        voice = self._rng.choice(sorted(self._by_voice))
        tokens = np.empty((STREAMS, positions), np.int16)
        tokens[0], tokens[AGENT], tokens[USER] = TEXT_PADDING, self._silence, self._sine
        prompt = self._write_prompt(tokens, voice, persona.prompt)
        shown = positions - prompt
        first = self._first_frame(track, shown)
        heard = self._user_codes[number][:, first : first + shown]
        tokens[USER, prompt : prompt + heard.shape[1]] = heard
        speaking = np.zeros(positions, bool)
        for line in self._side(voice).lines(track, persona, first, first + shown):
            self._write_line(tokens, speaking, line, prompt - first, prompt)
        words = np.full(positions, NOTHING, np.int16)
        for turn in track.turns:
            self._write_heard(words[prompt:], turn, first)
        return Talk(tokens, prompt, first, speaking, words)

    def _first_frame(self, track: Track, shown: int) -> int:
        room = track.frames - shown
        if room <= 0 or self._rng.random() < FROM_THE_START:
            return 0
        choices = [
            (before.end, turn.start)
            for before, turn in zip(track.turns, track.turns[1:], strict=False)
            if turn.start < room and turn.intent != "repeat"  # of what would have been said before
        ]
        if not choices:
            return 0
        earliest, start = self._rng.choice(choices)
        return max(earliest, start - self._rng.randint(*BEFORE_A_TURN))

    def _side(self, voice: str) -> AgentSide[Spoken]:
        def pick(sentence: str, rng: Random) -> tuple[Spoken, int] | None:
            spoken = self._renderings.draw(voice, sentence, rng)
            return None if spoken is None else (spoken, spoken.codes.shape[1])

        return AgentSide(pick, self._rng)

    def _write_prompt(self, tokens: npt.NDArray[np.int16], voice: str, prompt: str) -> int:
        """Voice, silence, text, silence; returns how many frames they take."""
        texts = [text for text in sorted(self._by_voice[voice]) if len(text) >= ENOUGH_TO_SAY]
        at, wanted = 0, self._rng.randint(*VOICE_FRAMES)
        while at < wanted:
            codes = self._agents.of(self._rng.choice(self._by_voice[voice][self._rng.choice(texts)]))
            count = min(codes.shape[1], wanted - at)
            tokens[AGENT, at : at + count] = codes[:, :count]
            at += count
        at += SILENCE_FRAMES
        text = self._encode(wrap_prompt(prompt)) if prompt else []
        tokens[0, at : at + len(text)] = text
        return at + len(text) + SILENCE_FRAMES

    def _write_line(
        self,
        tokens: npt.NDArray[np.int16],
        speaking: npt.NDArray[np.bool_],
        line: Line[Spoken],
        shift: int,
        earliest: int,
    ) -> None:
        """Codes and words of one sentence; frame f of the track stands at f + shift."""
        at, end = line.start + shift, min(line.end + shift, tokens.shape[1])
        if at < earliest or end <= at:
            return
        spoken = line.rendering
        tokens[AGENT, at:end] = spoken.codes[:, : end - at]
        speaking[at:end] = True
        free = at
        for word, begins in zip(line.text.split(), spoken.words, strict=True):
            pieces = self._pieces(word)
            place = max(at + begins - 1, free)
            if place > earliest and place - 1 < end and tokens[0, place - 1] == TEXT_PADDING:
                tokens[0, place - 1] = TEXT_END_OF_PADDING
            kept = pieces[: max(0, end - place)]
            tokens[0, place : place + len(kept)] = kept
            free = place + len(kept)

    def _write_heard(self, words: npt.NDArray[np.int16], turn: Turn, first: int) -> None:
        """The user's words, as if every letter took as long; frame `first` of the track stands at 0."""
        said = turn.text.split()
        letters = np.cumsum([len(word) + 1 for word in said])
        ends = turn.start + (turn.end - turn.start) * letters / letters[-1]
        free = 0
        for word, end in zip(said, ends, strict=True):
            pieces = self._pieces(word)
            at = max(round(end) + WORD_DELAY - first, free)
            if turn.start < first or at + len(pieces) > len(words):
                return
            words[at : at + len(pieces)] = pieces
            free = at + len(pieces)

    def _pieces(self, word: str) -> list[int]:
        if word not in self._words:
            self._words[word] = self._encode(word)
        return self._words[word]
