"""`python -m training.decoder`: makes the agents' voices clearer from the codes that they have.

In: `WORK/speech`, `WORK/codes`, the codec. Out: `WORK/decoder/codec.pt`. Encoder and codebooks stay as they are, so
every code keeps its meaning. Must not know: the language model.
"""

from __future__ import annotations

import math
from random import Random

import numpy as np
import torch
from moshi.models.compression import MimiModel
from torch import Tensor, nn

from training.codec.in_a_call import decode
from training.codec.mimi import load_mimi, save_mimi
from training.codec.spectra import SpectralDistance
from training.decoder.discriminators import convincing_losses, judges, judging_loss
from training.devices import prepare, resumed, saved
from training.encode.shelves import Agents, read_agents, read_constants
from training.journal import Journal
from training.loop import TimedLoop
from training.places import Places, parser
from training.recorded import mixed, recorded
from training.sizes import CodecSizes, size
from training.speech.shelf import Bank, read_bank

FRAME = 1920
MOST_LEAD = 7  # frames of silence before a sentence
JUDGED_SAMPLES = 24_000
RATE = 6e-4
JUDGES_FROM = 0.4  # of the time
STAY_SHARE = 0.3
WEIGHTS = {"spectra": 20.0, "wave": 2.0, "disbelief": 0.3, "features": 1.0}


class Sentences:
    """The agents' codes beside the sound that they stand for, on the device."""

    def __init__(
        self, bank: Bank, agents: Agents, silence: list[int], frames: int, device: torch.device, seed: int
    ) -> None:
        count = len(agents.renderings)
        codes = np.tile(np.array(silence, np.int16)[None, :, None], (count, 1, frames))
        sound = np.zeros((count, frames * FRAME), np.int16)
        for row, one in enumerate(agents.renderings):
            kept = agents.of(row)[:, :frames]
            codes[row, :, : kept.shape[1]] = kept
            said = bank.utterances[one.utterance]
            piece = bank.sound[said.start : said.start + min(said.samples, sound.shape[1])]
            sound[row, : len(piece)] = piece
        self._codes, self._sound = torch.from_numpy(codes).to(device), torch.from_numpy(sound).to(device)
        self._silence = torch.tensor(silence, device=device)[None, :, None]
        self._rng = Random(seed)

    def draw(self, batch: int) -> tuple[Tensor, Tensor]:
        """Codes int64 [B, 8, F] and sound float32 [B, N] of sentences after some frames of silence."""
        rows = [self._rng.randrange(len(self._codes)) for _ in range(batch)]
        lead = self._rng.randint(0, MOST_LEAD)
        codes, sound = self._codes[rows].long(), self._sound[rows].float() / 32767
        quiet = self._silence.expand(batch, -1, lead)
        codes = torch.cat([quiet, codes], 2)[:, :, : codes.shape[2]]
        sound = torch.cat([sound.new_zeros(batch, lead * FRAME), sound], 1)[:, : sound.shape[1]]
        return codes, sound


class Polish(nn.Module):
    """The codec, of which only the decoder's half learns, and its judges."""

    def __init__(self, mimi: MimiModel, device: torch.device) -> None:
        super().__init__()
        self.mimi, self.judges = mimi.eval(), judges().to(device)
        for name, parameter in mimi.named_parameters():
            from_codes = name.startswith("quantizer") and "output_proj" in name
            parameter.requires_grad_(name.startswith(("decoder", "upsample")) or from_codes)
        self.speaking = [parameter for parameter in mimi.parameters() if parameter.requires_grad]
        self._distance = SpectralDistance(device)

    def forward(self, codes: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Sound of codes, as a call would decode them, and how far it is from what is wanted: spectra, waves."""
        with mixed(codes.device):
            made = decode(self.mimi, codes).float()
        return made, self._distance(made, wanted), (made - wanted).abs().mean()


def _same_second(made: Tensor, wanted: Tensor, rng: Random) -> tuple[Tensor, Tensor]:
    first = rng.randint(0, max(0, made.shape[1] - JUDGED_SAMPLES))
    place = slice(first, first + JUDGED_SAMPLES)
    return wanted[:, place], made[:, place]


def train(places: Places, sizes: CodecSizes, seed: int, stop_after: float | None, journal: Journal) -> None:
    """Polishes for the seconds that the size says, over as many calls as it takes."""
    device = prepare(seed)
    agents, silence = read_agents(places.codes), read_constants(places.codes).silence
    bank = read_bank(places.speech / "agents")  # the first shelves of the whole bank, so utterances keep their numbers
    sentences = Sentences(bank, agents, silence, sizes.decoder_frames, device, seed)
    polish = Polish(load_mimi(places.codec, sizes, device), device)
    groups = [{"params": polish.speaking}, {"params": list(polish.judges.parameters())}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.8, 0.99))
    state_path = places.decoder.with_name("state.pt")
    progress = resumed(state_path, polish, optimizer, device)
    rng = Random(seed)
    loop = TimedLoop(
        journal, progress, sizes.decoder_seconds, stop_after, lambda: saved(state_path, polish, optimizer, progress)
    )
    spoken = recorded(polish, sentences.draw(sizes.decoder_batch))
    for share in loop:
        fade = 0.5 * (1 + math.cos(math.pi * (share - STAY_SHARE) / (1 - STAY_SHARE)))
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (progress.step + 1) / 50) * (1.0 if share < STAY_SHARE else max(0.03, fade))
        codes, wanted = sentences.draw(sizes.decoder_batch)
        made, spectra, wave = spoken(codes, wanted)
        losses = {"spectra": spectra, "wave": wave}
        optimizer.zero_grad(set_to_none=True)
        if share >= JUDGES_FROM:
            real, heard = _same_second(made, wanted, rng)
            losses["disbelief"], losses["features"] = convincing_losses(polish.judges, real, heard)
        total = torch.stack([WEIGHTS[name] * value for name, value in losses.items()]).sum()
        total.backward()
        if share >= JUDGES_FROM:
            polish.judges.zero_grad(set_to_none=True)  # what convinces is none of the judges' business
            judging_loss(polish.judges, real, heard).backward()
        nn.utils.clip_grad_norm_(polish.speaking, 10.0)
        optimizer.step()
        loop.note({name: losses[name] for name in ("spectra", "wave")})
    if loop.finished:
        save_mimi(polish.mimi, places.decoder)


def main(arguments: list[str] | None = None) -> None:
    chosen = parser(__doc__).parse_args(arguments)
    places, sizes = Places(chosen.work), size(chosen.size, chosen.pace)
    if places.decoder.exists():
        return
    with Journal(places.work, "decoder") as journal:
        train(places, sizes.codec, sizes.seed, chosen.seconds, journal)


if __name__ == "__main__":
    main()
