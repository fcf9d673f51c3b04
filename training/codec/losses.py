"""The codec in training: what it makes of pieces, and how far that is from what it should.

In: pieces. Out: losses by name. Must not know: optimizers, time.
The first codebook is also taught phonemes (CTC), in place of Mimi's WavLM distillation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.codec.effects import heard
from training.codec.in_a_call import decode_latent, encode_latent
from training.codec.mimi import books, make_mimi, quantize
from training.codec.pieces import Pieces
from training.codec.spectra import SpectralDistance
from training.devices import without_waiting
from training.recorded import mixed, recorded
from training.sizes import CodecSizes
from training.speech.phonemes import LABEL_COUNT

LABELS_A_FRAME = 4
DITHER = 2e-5


class PhonemeHead(nn.Module):
    """Latents [B, width, F] to log-probabilities [4 F, B, labels]; used in training alone."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(width, 256, 3, padding=1),
            nn.GELU(),
            nn.Conv1d(256, 256, 3, padding=1),
            nn.GELU(),
            nn.Conv1d(256, LABELS_A_FRAME * LABEL_COUNT, 1),
        )

    def forward(self, latent: Tensor) -> Tensor:
        scores = self.layers(latent).unflatten(1, (LABEL_COUNT, LABELS_A_FRAME))
        return scores.permute(3, 2, 0, 1).flatten(0, 1).float().log_softmax(-1)


class CodecTraining(nn.Module):
    """The codec with its two phoneme heads."""

    def __init__(self, sizes: CodecSizes, device: torch.device) -> None:
        super().__init__()
        self.mimi = make_mimi(sizes, device).train()
        self.head, self.encoder_head = PhonemeHead(sizes.width).to(device), PhonemeHead(sizes.width).to(device)
        self._distance = SpectralDistance(device)

    def through(self, clean: Tensor, callers: Tensor, quantizer_on: bool) -> tuple[Tensor, ...]:
        """Sound [B, N], of which some rows are callers [B], through the codec.

        Returns:
            distance of spectra and of waves, the quantizer's penalty, and what both heads read.
        """
        noisy, voice = heard(clean)
        rows = callers[:, None]
        sound = torch.where(rows, noisy, clean) + DITHER * torch.randn_like(noisy)
        wanted = torch.where(rows, voice, clean)
        with mixed(clean.device):
            latent = encode_latent(self.mimi, sound[:, None])
            first, rest, penalty = quantize(self.mimi, latent, quantizer_on)
            spoken, encoded = self.head(first), self.encoder_head(latent)
            made = decode_latent(self.mimi, first + rest)[:, 0, : wanted.shape[1]].float()
        return self._distance(made, wanted), (made - wanted).abs().mean(), penalty, spoken, encoded


class _Pass(nn.Module):
    """`through` with the quantizer on or off."""

    def __init__(self, codec: CodecTraining, quantizer_on: bool) -> None:
        super().__init__()
        self.codec, self._on = codec, quantizer_on

    def forward(self, clean: Tensor, callers: Tensor) -> tuple[Tensor, ...]:
        return self.codec.through(clean, callers, self._on)


class Losses:
    """Losses of one codec's pieces; the pass through it is recorded anew when the quantizer goes another way."""

    def __init__(self, codec: CodecTraining) -> None:
        self._codec = codec
        self._way: tuple[bool, float] | None = None
        self._pass: Callable[..., Any] = _Pass(codec, False)

    def __call__(self, pieces: Pieces, quantizer_on: bool) -> dict[str, Tensor]:
        """Each loss by name, unweighted."""
        spectra, wave, penalty, spoken, encoded = self._taken(pieces, quantizer_on)(pieces.sound, pieces.callers)
        return {
            "spectra": spectra,
            "wave": wave,
            "penalty": penalty,
            "phonemes": _ctc(spoken, pieces),
            "encoder_phonemes": _ctc(encoded, pieces),
        }

    def _taken(self, pieces: Pieces, quantizer_on: bool) -> Callable[..., Any]:
        every = books(self._codec.mimi)
        if quantizer_on and not all(book.initialized for book in every):
            return _Pass(self._codec, True)  # codebooks are filled one a step, from what then passes
        way = (quantizer_on, every[0].decay)
        if way != self._way:
            self._way, self._pass = way, recorded(_Pass(self._codec, quantizer_on), (pieces.sound, pieces.callers))
        return self._pass


def _ctc(scores: Tensor, pieces: Pieces) -> Tensor:
    times = torch.full((scores.shape[1],), scores.shape[0])  # on the host, as the lengths: nothing waits for the device
    each = F.ctc_loss(scores, pieces.labels, times, pieces.lengths, reduction="none", zero_infinity=True)
    return (each / without_waiting(pieces.lengths, scores.device)).mean()
