"""The coach measures with the checkpoint's own tokenizer, agrees with what a talk is refused for, and is quick."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import sentencepiece

import personaplex_app
from personaplex_app.coach import MOST_PROMPT_CHARACTERS, NO_MODEL, Ruler, advise
from personaplex_app.errors import InvalidInput
from personaplex_app.model.prompts import LARGEST_SHARE, SILENCE_FRAMES
from personaplex_app.model.tokenizer import Tokenizer
from personaplex_app.prompt_shapes import EMPTY_DESK, TALKER, TEACHER

CHECKPOINTS = Path(personaplex_app.__file__).parent / "checkpoints"
MODEL_FILE = CHECKPOINTS / "demo" / "tokenizer_spm_32k_3.model"
TOKENIZER = Tokenizer(MODEL_FILE, 1000)
PIECES = sentencepiece.SentencePieceProcessor(model_file=str(MODEL_FILE))
CONTEXT = 3000
VOICE_FRAMES = 25


def _forced(voice: str) -> int:
    if voice == "NOBODY":
        raise InvalidInput("There is no voice NOBODY.", code="unknown_voice")
    return 2 * SILENCE_FRAMES + (0 if voice == "none" else VOICE_FRAMES)


RULER = Ruler(TOKENIZER.encode_prompt, _forced, CONTEXT)


def test_tokens_positions_seconds_and_share() -> None:
    advice = advise(TEACHER, "NATF0", RULER)
    tokens = len(TOKENIZER.encode_prompt(TEACHER))
    length = advice.length
    assert length is not None and tokens > 20
    assert (length.tokens, length.positions) == (tokens, tokens + VOICE_FRAMES + 12)
    assert length.seconds == pytest.approx(length.positions * 0.08)
    assert length.share == pytest.approx(length.positions / CONTEXT)
    assert (advice.fits, advice.shape, advice.nearest) == (True, "assistant", None)
    assert advice.sentence == "An assistant, as the model was trained."


def test_no_voice_takes_no_positions() -> None:
    length = advise(TEACHER, "none", RULER).length
    assert length is not None and length.positions == length.tokens + 12


@pytest.mark.parametrize("over", [0, 1, 50])
def test_it_fits_up_to_a_third_and_is_told_by_how_much_it_does_not(over: int) -> None:
    most = CONTEXT // LARGEST_SHARE
    ruler = Ruler(lambda text: [5] * (most - 12 + over), _forced, CONTEXT)
    advice = advise(TALKER, "none", ruler)
    assert advice.fits == (over == 0) and advice.length is not None and advice.length.over == over
    said = f"The prompt is too long: its text takes {most - 12 + over:,} tokens and with voice and silence"
    assert (said in advice.sentence) == (over > 0)
    assert (f"but at most 1,000 fit. Shorten it by {over} tokens or more." in advice.sentence) == (over > 0)


@pytest.mark.parametrize("context", [160, 256, 1000, 2999, 3000])
def test_the_limit_is_the_one_that_a_talk_is_refused_by(context: int) -> None:
    for tokens in range(context // LARGEST_SHARE - 15, context // LARGEST_SHARE + 3):
        advice = advise("x", "none", Ruler(lambda text, count=tokens: [5] * count, _forced, context))
        assert advice.fits == (tokens + 12 <= context // LARGEST_SHARE)


def test_a_prompt_without_a_trained_shape_is_told_which_is_nearest() -> None:
    advice = advise("You work at Blue River, a bike shop. A bike costs $45.", "none", RULER)
    assert advice.shape == "other" and advice.fits and advice.nearest is not None
    assert advice.nearest.shape == "service" and "Blue River" in advice.nearest.template
    assert "none of the shapes that the model was trained on" in advice.sentence
    assert "the nearest is a service desk's" in advice.sentence


@pytest.mark.parametrize(
    ("prompt", "sentence"),
    [
        ("", "Without a prompt nobody in particular answers."),
        (" \n", "Without a prompt nobody in particular answers."),
        (TALKER, "A talker, as the model was trained. Add a topic and who they are"),
        (f"{TALKER} You are Mira.", "A talker, as the model was trained."),
        (EMPTY_DESK.prompt, "A service desk, as the model was trained. Still to fill in: COMPANY, KIND, NAME, FACTS."),
        (EMPTY_DESK.prompt.replace("KIND", "bank").replace("FACTS", "Open."), "Still to fill in: COMPANY, NAME."),
        (f"{TALKER}\n- You like tea\n- You hate mice", "trained on plain sentences: lists and headings may be lost"),
        ("# Role\nbe nice", "lists and headings"),
        (f"{TALKER} Ты любишь говорить о погоде и о море.", "The model was trained on English only."),
        ("你是一位友好的老师。", "The model was trained on English only."),
        ("You are a helpful assistant.", "the nearest is an assistant's, which begins: You are a wise and friendly"),
        ("Be a pirate.", "the nearest is a talker's: You enjoy having a good conversation."),
    ],
)
def test_what_is_said(prompt: str, sentence: str) -> None:
    assert sentence in advise(prompt, "none", RULER).sentence


def test_good_prompts_are_not_nagged() -> None:
    for prompt in (TEACHER, f"{TALKER} You are Zoë from Málaga and you like crêpes.", EMPTY_DESK.prompt):
        said = advise(prompt, "none", RULER).sentence
        assert "English" not in said and "lists" not in said and "none of the shapes" not in said


def test_without_a_model_nobody_knows_how_long_it_is() -> None:
    advice = advise(TEACHER, "anything", None)
    assert (advice.length, advice.fits, advice.shape) == (None, None, "assistant")
    assert advice.sentence == f"{NO_MODEL} An assistant, as the model was trained."


def test_what_is_no_text_and_who_is_no_voice_are_refused() -> None:
    with pytest.raises(InvalidInput, match="half a pair"):
        advise("\ud800", "none", RULER)
    with pytest.raises(InvalidInput, match="no voice NOBODY"):
        advise("Hello", "NOBODY", RULER)


LONG = {
    "a": "a",
    "words": "hello there my friend ",
    "emoji": "é中😀",
    "spaces": " ",
    "lines": "x\n",
    "marks": "<system>",
    "desk": "You work for A which is a ",
    "names": "Ab Cd ",
    "list": "\n- ",
    "far planes": "\U0010fffd",
    "numbers": "1",
}


@pytest.mark.timed
@pytest.mark.parametrize("length", [20_000, 100_000])
@pytest.mark.parametrize("name", LONG)
def test_a_prompt_of_any_length_is_answered_within_50_ms_and_never_cut(name: str, length: int) -> None:
    prompt = (LONG[name] * length)[:length]
    took = []
    for _ in range(3):
        began = time.thread_time()
        advice = advise(prompt, "none", RULER)
        took.append(time.thread_time() - began)
    assert min(took) < 0.05
    if advice.length is not None:
        assert advice.length.tokens == len(TOKENIZER.encode_prompt(prompt)), "every character counts"
        assert advice.fits == (advice.length.positions <= 1000)
    else:
        looked_at = {"emoji": 13_333, "far planes": 10_000}.get(name, 20_000)
        assert length > looked_at and advice.fits is False
        counted = len(PIECES.encode(prompt[:looked_at]))
        assert f"first {looked_at:,} of its {length:,} characters alone are {counted:,} tokens" in advice.sentence


def test_more_is_not_looked_at() -> None:
    with pytest.raises(
        InvalidInput, match="The prompt has 100,001 characters; at most 100,000 are looked at"
    ) as refused:
        advise("x" * (MOST_PROMPT_CHARACTERS + 1), "none", RULER)
    assert refused.value.code == "too_large"
