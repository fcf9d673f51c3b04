"""What smaller weights or a smaller past change: one talk is recorded with the whole ones and forced upon the others.

In: two ways to build a stepper of one slot. Out: how many greedy tokens are equal, how far text logits are apart.
Must not know: flags, files, how figures are shown.

Both are stepped through the same columns, so that a token that differs leads nowhere; the logits are those of one pass
over all columns, which reads no stored past and so shows the weights alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.evaluation.bench_memory import give_back_memory
from personaplex_app.evaluation.bench_report import Forced
from personaplex_app.evaluation.bench_sound import speech_like
from personaplex_app.evaluation.bench_talkers import PERSONA
from personaplex_app.voices import NO_VOICE

PIECE_POSITIONS = 128
Build = Callable[[], Any]


@dataclass(frozen=True)
class Recording:
    """A greedy talk of T frames.

    Attributes:
        columns: int64 [T, 17], what each step read. heard: int64 [T, 8]. text: int64 [T], the text tokens chosen.
        codes: int64 [T, 7], the codes drawn last. logits: float32 [T, V], of all columns in one pass.
    """

    columns: Tensor
    heard: Tensor
    text: Tensor
    codes: Tensor
    logits: Tensor


def measure_forced(build_whole: Build, build_other: Build, frames: int) -> Forced:
    """Records with the first stepper and compares with the second; one of them is in memory at a time."""
    wanted = _talk(build_whole(), frames, None)
    give_back_memory()
    got = _talk(build_other(), frames, wanted)
    give_back_memory()
    reference = F.log_softmax(wanted.logits, -1)
    apart = F.kl_div(F.log_softmax(got.logits, -1), reference, reduction="none", log_target=True).sum(-1)
    return Forced(
        frames=frames,
        text_equal=int((wanted.text == got.text).sum()),
        codes_equal=int((wanted.codes == got.codes).sum()),
        codes=wanted.codes.numel(),
        top_equal=int((wanted.logits.argmax(-1) == got.logits.argmax(-1)).sum()),
        kl_nats=float(apart.mean()),
    )


@torch.inference_mode()
def _talk(stepper: Any, frames: int, forced: Recording | None) -> Recording:
    """T greedy frames, each from the column that was recorded where there is one."""
    language, device = stepper.language, stepper.codec.device
    opening = stepper.open(Choices(PERSONA, NO_VOICE, SamplingSettings().greedy(), 0))
    stepper.prime(0, opening)
    sound = torch.from_numpy(speech_like(frames)).to(device)
    columns, heard, text, codes = [], [], [], []
    for frame in range(frames):
        if forced is None:
            user = stepper.codec.encode(sound[frame : frame + 1])
        else:
            language.state.column[0].copy_(forced.columns[frame])
            user = forced.heard[frame : frame + 1].to(device)
        step = language.advance(user, [True])
        columns.append(step.fed[0].cpu())
        heard.append(user[0].cpu())
        text.append(step.next_text[0].cpu())
        codes.append(step.codes[0, 1:].cpu())
    every = torch.stack(columns)
    logits = _logits(language, opening.plan, every)
    return Recording(every, torch.stack(heard), torch.stack(text), torch.stack(codes), logits)


def _logits(language: Any, plan: Any, columns: Tensor) -> Tensor:
    """Text logits float32 [T, V] of T columns after a prompt, on the host."""
    from personaplex_app.model.language import prompt_embeddings

    weights = language.weights
    config, temporal = weights.config, weights.temporal
    x = torch.cat([prompt_embeddings(temporal, plan), temporal.embed(columns.to(weights.device))])
    shape = (config.layers, 2, config.heads, len(x), config.head_dim)
    kv = torch.empty(shape, dtype=weights.dtype, device=weights.device)
    logits = []
    for first in range(0, len(x), PIECE_POSITIONS):
        piece = x[first : first + PIECE_POSITIONS]
        if hasattr(language, "step"):
            logits.append(language.step.outputs(language.step.prefill(piece, kv, first))[1].float().cpu())
        else:
            logits.append(temporal.prefill(piece, kv, first)[1].float().cpu())
    return torch.cat(logits)[plan.frames :]
