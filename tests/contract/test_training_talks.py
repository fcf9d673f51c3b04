"""Talks as the language model is trained on them: prompt, the caller's codes, the agent's codes and words in place."""

from __future__ import annotations

import numpy as np

from personaplex_app.model.config import TEXT_END_OF_PADDING, TEXT_PADDING
from training.encode.shelves import Agents, Constants, Rendering
from training.language.assembler import NOTHING, WORD_DELAY, Assembler, Talk
from training.talks.tracks import Track, Turn
from training.world.answers import agent_sentences

SENTENCE_FRAMES, SILENCE, SINE = 30, 11, 22
LAST_WORD_FRAMES = 8  # of "The capital of France is Paris."
TRACK = Track(
    "assistant",
    greeted=False,
    frames=600,
    turns=(
        Turn("sum", "two plus three", "What is two plus three?", 0, 20, 40, 0),
        Turn("capital", "France", "What is the capital of France?", 1, 60, 80, 0),  # over the first answer
        Turn("thanks", "", "Thank you.", 2, 150, 160, 0),
    ),
)


def _letters(text: str) -> list[int]:
    return [100 + ord(letter) for letter in text]


def _agents() -> Agents:
    """Every sentence lasts 30 frames and has one code, its own."""
    renderings, pieces = [], []
    for index, text in enumerate(agent_sentences()):
        words = [2 + 4 * number for number in range(len(text.split()))]
        renderings.append(Rendering("NATF0", text, SENTENCE_FRAMES * index, SENTENCE_FRAMES, words, index))
        pieces.append(np.full((8, SENTENCE_FRAMES), index, np.int16))
    return Agents(np.concatenate(pieces, 1), renderings)


AGENTS = _agents()
USER = np.tile(np.arange(600, dtype=np.int16), (8, 1))


def _talk(positions: int, seed: int = 0) -> Talk:
    constants = Constants([SILENCE] * 8, [SINE] * 8)
    return Assembler(AGENTS, constants, [USER], [TRACK], _letters, seed).draw(positions)


def _code_of(text: str) -> int:
    return next(index for index, one in enumerate(AGENTS.renderings) if one.text == text)


def test_the_callers_codes_follow_the_prompt_frame_by_frame() -> None:
    for seed in range(20):
        talk = _talk(400, seed)
        heard = talk.tokens[9:, talk.prompt :]
        assert (heard == USER[:, talk.skipped : talk.skipped + heard.shape[1]]).all()
        assert (talk.tokens[9:, : talk.prompt] == SINE).all()
        silent = ~talk.speaking[talk.prompt :]
        assert (talk.tokens[1:9, talk.prompt :][:, silent] == SILENCE).all()


def test_answers_stand_with_their_codes_and_words() -> None:
    talk = next(talk for seed in range(99) if (talk := _talk(500, seed)).skipped == 0)
    row = talk.tokens[0, talk.prompt :]
    said = "".join(chr(token - 100) for token in row if token > 3)
    assert said.startswith("Two") and "five." not in said
    assert said.endswith("ThecapitalofFranceisParis.Youarewelcome.")
    codes = talk.tokens[1, talk.prompt :]
    cut, whole = _code_of("Two plus three is five."), _code_of("The capital of France is Paris.")
    assert 0 < (codes == cut).sum() < SENTENCE_FRAMES, "the caller began to speak"
    assert not (codes[60 + 8 :] == cut).any(), "and the agent was silent within 0.64 s"
    end = int(np.flatnonzero(codes == whole)[-1]) + 1
    first = end - SENTENCE_FRAMES
    assert talk.speaking[talk.prompt :][first:end].all() and not talk.speaking[talk.prompt :][first - 1]
    assert (codes[end - LAST_WORD_FRAMES : end] == whole).all(), "the last word is the sentence's own"
    words = np.flatnonzero(row[first - 2 : first + 8] > 3)
    assert 3 <= first - 80 <= 5 and row[first + words[0] - 3] == TEXT_END_OF_PADDING


def test_padding_fills_what_says_nothing() -> None:
    talk = _talk(400, 3)
    quiet = talk.tokens[0, talk.prompt :][~talk.speaking[talk.prompt :]]
    assert set(quiet) <= {TEXT_PADDING, TEXT_END_OF_PADDING}


def test_what_the_user_says_is_to_be_written_down_a_little_later() -> None:
    for seed in range(30):
        talk = _talk(400, seed)
        heard = talk.heard[talk.prompt :]
        if talk.skipped or len(heard) < 200:
            continue
        said = "".join(chr(token - 100) for token in heard if token != NOTHING)
        assert said.startswith("Whatistwoplusthree?WhatisthecapitalofFrance?")
        first, *_, last = np.flatnonzero(heard[:60] != NOTHING)
        assert 20 + WORD_DELAY < first < last < 60, "behind the words, and not far behind"
        assert (talk.heard[: talk.prompt] == NOTHING).all()
        return
    raise AssertionError("no talk begins at its beginning")
