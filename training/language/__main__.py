"""`python -m training.language`: trains the language model on talks that are new at every draw.

In: `WORK/codes`, the tokenizer. Out: `WORK/language/language.pt`; a state every minute, from which a next call goes on.
Must not know: sound. Short talks first, whole windows last: so it stays awake for all of its window.
"""

from __future__ import annotations

import math
from pathlib import Path

import sentencepiece
import torch
from safetensors.torch import load_file

from personaplex_app.model.checkpoint import TOKENIZER_FILE, WEIGHTS_FILE
from personaplex_app.model.config import LanguageConfig, gating_hidden
from training.devices import prepare, resumed, saved
from training.journal import Journal
from training.language.export import take_over
from training.language.network import Network
from training.language.pool import TalkPool
from training.language.steps import Steps, make_optimizer
from training.loop import TimedLoop
from training.places import Places, parser
from training.shrink import restored
from training.sizes import LanguageSizes, Phase, size

WARM_UP_STEPS = 300
STAY_SHARE = 0.3  # of the time at the peak rate
LAST_RATE = 0.03
LATER_RATE = 0.5  # of the peak rate, for a model that is trained on
REFILLED_EVERY_STEPS = 3
CHECKED_EVERY_STEPS = 500  # on talks over tracks that are kept apart


def architecture(sizes: LanguageSizes, text_card: int) -> LanguageConfig:
    """The network in numbers, as the app reads them from the package."""
    return LanguageConfig(
        dim=sizes.dim,
        layers=sizes.layers,
        heads=sizes.heads,
        hidden=gating_hidden(sizes.dim, int(4.125 * sizes.dim)),
        context=sizes.context,
        text_card=text_card,
        depth_dim=sizes.depth_dim,
        depth_layers=sizes.depth_layers,
        depth_heads=sizes.depth_heads,
        depth_hidden=gating_hidden(sizes.depth_dim, sizes.depth_feed_forward),
    )


def phase_at(phases: tuple[Phase, ...], share: float) -> Phase:
    """Which part of the training it is when this share of the time is spent."""
    until = 0.0
    for phase in phases:
        until += phase.share
        if share < until:
            return phase
    return phases[-1]


def rate_at(share: float, step: int, peak: float) -> float:
    """The learning rate: warm up, stay, fade."""
    fade = 0.5 * (1 + math.cos(math.pi * (share - STAY_SHARE) / (1 - STAY_SHARE)))
    return peak * min(1.0, (step + 1) / WARM_UP_STEPS) * (1.0 if share < STAY_SHARE else max(LAST_RATE, fade))


def begin_with(network: Network, earlier: Path | None, tokenizer: Path) -> bool:
    """Takes over an earlier checkpoint's language model where its tokenizer is the same; says whether it did."""
    if earlier is None or (earlier / TOKENIZER_FILE).read_bytes() != tokenizer.read_bytes():
        return False
    take_over(network, restored(load_file(earlier / WEIGHTS_FILE)))
    return True


def train(
    places: Places, sizes: LanguageSizes, seed: int, stop_after: float | None, journal: Journal, earlier: Path | None
) -> None:
    """Trains for the seconds that the size says, over as many calls as it takes; on from an earlier model, if any."""
    vocabulary = sentencepiece.SentencePieceProcessor(model_file=str(places.tokenizer)).vocab_size()
    pool = TalkPool(places.codes, places.tokenizer, sizes.workers, sizes.pool, seed)
    try:
        _train(places, sizes, architecture(sizes, vocabulary), pool, seed, stop_after, journal, earlier)
    finally:
        pool.close()


def _train(
    places: Places,
    sizes: LanguageSizes,
    config: LanguageConfig,
    pool: TalkPool,
    seed: int,
    stop_after: float | None,
    journal: Journal,
    earlier: Path | None,
) -> None:
    pool.prefer(sizes.phases[0].positions, sizes.phases[0].batch)  # processes are forked before the GPU is touched
    device = prepare(seed)
    torch.set_float32_matmul_precision("high")
    pool.move_to(device)
    network = Network(config).to(device)
    optimizer = make_optimizer(network, sizes.rate, device)
    state_path = places.language.with_name("state.pt")
    progress = resumed(state_path, network, optimizer, device)
    if progress.step == 0:
        progress.marks["later"] = int(begin_with(network, earlier, places.tokenizer))
    peak = sizes.rate * (LATER_RATE if progress.marks.get("later") else 1.0)
    journal.note("network", parameters=sum(p.numel() for p in network.parameters()), resumed_at=progress.spent)
    steps = Steps(network, optimizer, sizes.depth_positions, device)
    steps.compile(sizes.phases)
    journal.note("compiled")
    loop = TimedLoop(
        journal, progress, sizes.seconds, stop_after, lambda: saved(state_path, network, optimizer, progress)
    )
    for share in loop:
        phase = phase_at(sizes.phases, share)
        pool.prefer(phase.positions, phase.batch)
        if progress.step % REFILLED_EVERY_STEPS == 0:
            pool.refill()
        loop.note(steps.take(pool.batch(phase.batch), rate_at(share, progress.step, peak)))
        if progress.step % CHECKED_EVERY_STEPS == 0:
            journal.note("unseen", steps=progress.step, **steps.measure(pool.unseen(phase.batch)))
    journal.note("talks", received=pool.received)
    if loop.finished:
        partial = places.language.with_suffix(".partial")
        torch.save({name: tensor.cpu() for name, tensor in network.state_dict().items()}, partial)
        partial.replace(places.language)


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__)
    options.add_argument(
        "--begin-with", type=Path, default=None, help="a checkpoint whose language model is trained on"
    )
    chosen = options.parse_args(arguments)
    places, sizes = Places(chosen.work), size(chosen.size, chosen.pace)
    if places.language.exists():
        return
    with Journal(places.work, "language") as journal:
        train(places, sizes.language, sizes.seed, chosen.seconds, journal, chosen.begin_with)


if __name__ == "__main__":
    main()
