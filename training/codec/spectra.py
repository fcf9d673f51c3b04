"""How far apart two sounds are: mel spectra at several resolutions.

In: [B, N] made and wanted. Out: a number. Must not know: models.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

RESOLUTIONS = {256: 32, 512: 48, 1024: 80, 2048: 100}  # window in samples: mel bands
FLOOR = 0.01  # about 50 dB under speech: a lower one lets silence drown the rest
LINEAR_SHARE = 0.1


def mel_bank(window: int, bands: int, rate: int = 24_000) -> Tensor:
    """[bands, window // 2 + 1] triangles."""
    top = 2595 * math.log10(1 + rate / 2 / 700)
    hertz = 700 * (10 ** (torch.linspace(0, top, bands + 2) / 2595) - 1)
    bins = torch.linspace(0, rate / 2, window // 2 + 1)
    up = (bins[None] - hertz[:-2, None]) / (hertz[1:-1] - hertz[:-2])[:, None]
    down = (hertz[2:, None] - bins[None]) / (hertz[2:] - hertz[1:-1])[:, None]
    return torch.minimum(up, down).clamp(min=0)


class SpectralDistance:
    """Mean distance of logarithms, and a little of the magnitudes themselves."""

    def __init__(self, device: torch.device) -> None:
        self._views = [
            (window, torch.hann_window(window, device=device), mel_bank(window, bands).to(device))
            for window, bands in RESOLUTIONS.items()
        ]

    def __call__(self, made: Tensor, wanted: Tensor) -> Tensor:
        total = made.new_zeros(())
        for window, shape, bank in self._views:
            floor = FLOOR * math.sqrt(window / 1024)
            one, other = (self._mel(sound, window, shape, bank) for sound in (made, wanted))
            total = total + ((one + floor).log10() - (other + floor).log10()).abs().mean()
            total = total + LINEAR_SHARE * (one - other).abs().mean()
        return total / len(self._views)

    @staticmethod
    def _mel(sound: Tensor, window: int, shape: Tensor, bank: Tensor) -> Tensor:
        bins = torch.stft(sound, window, window // 4, window=shape, return_complex=True).abs()
        return bank @ bins
