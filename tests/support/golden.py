"""The golden cases: which prompt, which context, and how our columns line up with the reference's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from personaplex_app.controls import SamplingSettings
from personaplex_app.model.checkpoint import Checkpoint
from personaplex_app.model.language import LanguageModel
from personaplex_app.model.loading import Weights
from personaplex_app.model.prompts import PromptPlan, VoicePrompt, plan_prompt
from personaplex_app.model.tokenizer import Tokenizer
from personaplex_app.model.voice_file import read_voice_bytes

Reference = Mapping[str, np.ndarray]
GREEDY = SamplingSettings().greedy()


@dataclass(frozen=True)
class Case:
    """A golden talk.

    Attributes:
        voice: `pt`, `codes` or `none`. context: positions to run with, None for the checkpoint's own;
            where the ring wraps it is one smaller than the reference's (model.md, section 6).
    """

    name: str
    voice: str
    context: int | None = None

    def __str__(self) -> str:
        return self.name


CASES = (
    Case("pt_text", "pt"),
    Case("codes_text", "codes"),
    Case("pt_notext", "pt"),
    Case("novoice_text", "none"),
    Case("long", "codes", 255),
    Case("short_context", "codes", 159),
)


def pt_voice(checkpoint: Checkpoint, name: str = "TINY0") -> VoicePrompt:
    """A voice that lies with the checkpoint, read directly."""
    path: Path = checkpoint.directory / "voices" / f"{name}.pt"
    return read_voice_bytes(path.read_bytes(), checkpoint.config, name)


def case_plan(case: Case, checkpoint: Checkpoint, reference: Reference) -> PromptPlan:
    """The forced frames of a case."""
    voices = {
        "pt": lambda: pt_voice(checkpoint),
        "codes": lambda: VoicePrompt(codes=torch.from_numpy(reference["voice_codes"])),
        "none": lambda: None,
    }
    tokens = [int(token) for token in reference[f"{case.name}_text_prompt_tokens"]]
    return plan_prompt(voices[case.voice](), tokens, checkpoint.config)


def with_context(weights: Weights, context: int | None) -> Weights:
    """The same weights with a ring of another size."""
    return replace(weights, config=replace(weights.config, context=context)) if context else weights


def talk(
    weights: Weights, plan: PromptPlan, user_codes: npt.NDArray[np.int64], masked: bool | None = None
) -> npt.NDArray[np.int64]:
    """A greedy talk, one slot; returns int64 [9, T], text and agent codes of the step of each user frame."""
    model = LanguageModel(weights, 1, masked)
    model.prime(0, plan, GREEDY, 0)
    columns = []
    for frame in torch.from_numpy(user_codes).T.to(weights.device):
        step = model.advance(frame[None], [True])
        columns.append(torch.cat([step.text[:, None], step.codes], dim=1)[0].cpu().numpy())
    return np.stack(columns, axis=1)


def case_talk(
    case: Case, weights: Weights, checkpoint: Checkpoint, reference: Reference, masked: bool | None = None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Our columns and the reference's, lined up: its call c is our call c - 1."""
    plan = case_plan(case, checkpoint, reference)
    assert plan.frames == reference[f"{case.name}_prompt_frames"]
    ours = talk(with_context(weights, case.context), plan, reference[f"{case.name}_user_codes"], masked)
    return ours[:, :-1], reference[f"{case.name}_step_outputs"][:9, 1:]


def golden_prompt(checkpoint: Checkpoint, reference: Reference) -> str:
    """The text behind the tokens of `pt_text`, as a person would type it."""
    from sentencepiece import SentencePieceProcessor

    pieces = SentencePieceProcessor(model_file=str(checkpoint.tokenizer))
    tokens = [int(token) for token in reference["pt_text_text_prompt_tokens"]]
    text = pieces.decode(tokens)
    assert Tokenizer(checkpoint.tokenizer, checkpoint.config.language.text_card).encode_prompt(text) == tokens
    return text
