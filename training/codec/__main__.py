"""`python -m training.codec`: trains the miniature Mimi on the little world's speech.

In: `WORK/speech`. Out: `WORK/codec/codec.pt`; every minute a state from which the next call goes on.
Must not know: dialogues.
"""

from __future__ import annotations

import math
from pathlib import Path

import torch
from moshi.models.compression import MimiModel
from torch import nn

from personaplex_app.model.checkpoint import CODEC_FILE
from training.codec.losses import CodecTraining, Losses
from training.codec.mimi import begin_with, books, save_mimi, start_at_unit_variance
from training.codec.pieces import PieceMaker
from training.devices import prepare, resumed, saved
from training.journal import Journal
from training.loop import TimedLoop
from training.places import Places, parser
from training.sizes import CodecSizes, size
from training.speech.shelf import read_bank

FRAME = 1920
PLAIN_SHARE = 0.2  # of the time, at first, without the quantizer
QUICK_STEPS = 400  # after the quantizer came on, in which the codebooks move fast
LATER_RATE = 0.5  # of the peak rate, for a codec that is trained on
WEIGHTS = {"spectra": 5.0, "wave": 1.0, "penalty": 1.0, "phonemes": 0.3, "encoder_phonemes": 0.1}


def rate_at(share: float, step: int, since_quantizer: int | None, peak: float) -> float:
    """The learning rate when this share of the time is spent: warm up, stay, fade; slow again at the quantizer."""
    warm = min(1.0, (step + 1) / 200)
    fade = 1.0 if share < 0.4 else max(0.03, 0.5 * (1 + math.cos(math.pi * (share - 0.4) / 0.6)))
    gentle = 1.0 if since_quantizer is None else min(1.0, 0.3 + 0.7 * since_quantizer / QUICK_STEPS)
    return peak * warm * fade * gentle


def train(
    places: Places, sizes: CodecSizes, seed: int, stop_after: float | None, journal: Journal, earlier: Path | None
) -> None:
    """Trains for the seconds that the size says, over as many calls as it takes; on from an earlier codec, if any."""
    device = prepare(seed)
    pieces = PieceMaker(read_bank(places.speech), sizes.frames * FRAME, device, seed)
    training = CodecTraining(sizes, device)
    optimizer = torch.optim.AdamW(
        training.parameters(), lr=sizes.rate, betas=(0.8, 0.99), weight_decay=0.01, fused=device.type == "cuda"
    )
    state_path = places.codec.with_name("state.pt")
    progress = resumed(state_path, training, optimizer, device)
    if progress.step == 0 and earlier is not None:
        begin_with(training.mimi, earlier / CODEC_FILE)
        progress.marks["quantizer"] = -QUICK_STEPS
    elif progress.step == 0:
        start_at_unit_variance(training.mimi, pieces.draw(min(32, sizes.batch)).sound[:, None])
    peak = sizes.rate * (LATER_RATE if progress.marks.get("quantizer", 0) < 0 else 1.0)
    journal.note("codec", parameters=sum(p.numel() for p in training.mimi.parameters()), resumed_at=progress.spent)
    loop = TimedLoop(
        journal, progress, sizes.seconds, stop_after, lambda: saved(state_path, training, optimizer, progress)
    )
    losses_of = Losses(training)
    for share in loop:
        on = share >= PLAIN_SHARE or "quantizer" in progress.marks
        if on:
            progress.marks.setdefault("quantizer", progress.step)
        since = progress.step - progress.marks["quantizer"] if on else None
        _set_rates(optimizer, training.mimi, share, progress.step, since, peak)
        losses = losses_of(pieces.draw(sizes.batch), on)
        optimizer.zero_grad(set_to_none=True)
        torch.stack([WEIGHTS[name] * value for name, value in losses.items()]).sum().backward()
        nn.utils.clip_grad_norm_(training.parameters(), 5.0)
        optimizer.step()
        loop.note(losses)
    if loop.finished:
        save_mimi(training.mimi, places.codec)


def _set_rates(
    optimizer: torch.optim.Optimizer, mimi: MimiModel, share: float, step: int, since: int | None, peak: float
) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate_at(share, step, since, peak)
    for book in books(mimi):
        book.decay = 0.9 if since is not None and since < QUICK_STEPS else 0.99


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__)
    options.add_argument("--begin-with", type=Path, default=None, help="a checkpoint whose codec is trained on")
    chosen = options.parse_args(arguments)
    places, sizes = Places(Path(chosen.work)), size(chosen.size, chosen.pace)
    if places.codec.exists():
        return
    with Journal(places.work, "codec") as journal:
        train(places, sizes.codec, sizes.seed, chosen.seconds, journal, chosen.begin_with)


if __name__ == "__main__":
    main()
