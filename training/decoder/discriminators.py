"""Tells real speech from made speech, at three resolutions of the spectrum.

In: sound [B, N]. Out: scores, and the features on the way. Must not know: codecs.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WINDOWS = (512, 1024, 2048)
CHANNELS = 24
DILATIONS = (1, 2, 4)
SLOPE = 0.2
SCALE = 8.0  # brings a spectrum to about unit size


def _convolution(inputs: int, outputs: int, kernel: tuple[int, int], stride: int = 1, dilation: int = 1) -> nn.Module:
    padding = (dilation * (kernel[0] // 2), kernel[1] // 2)
    made = nn.Conv2d(inputs, outputs, kernel, (1, stride), padding, (dilation, 1))
    return nn.utils.parametrizations.weight_norm(made)


class Discriminator(nn.Module):
    """One resolution: convolutions over time and frequency of the complex spectrum."""

    def __init__(self, window: int) -> None:
        super().__init__()
        self.window = window
        self.shape: Tensor
        self.register_buffer("shape", torch.hann_window(window), persistent=False)
        self.layers = nn.ModuleList(
            [_convolution(2, CHANNELS, (3, 9))]
            + [_convolution(CHANNELS, CHANNELS, (3, 9), 2, dilation) for dilation in DILATIONS]
            + [_convolution(CHANNELS, CHANNELS, (3, 3))]
        )
        self.out = _convolution(CHANNELS, 1, (3, 3))

    def forward(self, sound: Tensor) -> tuple[Tensor, list[Tensor]]:
        spectrum = torch.stft(
            sound, self.window, self.window // 4, window=self.shape, return_complex=True, normalized=True
        )
        x = torch.stack([spectrum.real, spectrum.imag], 1).transpose(2, 3) * SCALE
        x = x.contiguous(memory_format=torch.channels_last)
        features = []
        with torch.autocast(sound.device.type, dtype=torch.bfloat16, enabled=sound.is_cuda):
            for layer in self.layers:
                x = F.leaky_relu(layer(x), SLOPE)
                features.append(x)
            return self.out(x).float(), features


def judges() -> nn.ModuleList:
    """All resolutions."""
    return nn.ModuleList(Discriminator(window) for window in WINDOWS)


def judging_loss(judges: nn.ModuleList, real: Tensor, made: Tensor) -> Tensor:
    """What the judges minimize: scores above 1 for the real, below -1 for the made."""
    total = real.new_zeros(())
    for judge in judges:
        total = total + (1 - judge(real)[0]).clamp(min=0).mean() + (1 + judge(made.detach())[0]).clamp(min=0).mean()
    return total


def convincing_losses(judges: nn.ModuleList, real: Tensor, made: Tensor) -> tuple[Tensor, Tensor]:
    """What the decoder minimizes: the judges' disbelief, and the distance of their features."""
    disbelief = distance = real.new_zeros(())
    for judge in judges:
        with torch.no_grad():
            _, wanted = judge(real)
        score, features = judge(made)
        disbelief = disbelief - score.mean() / len(judges)
        each = [
            (one - other).abs().float().mean() / other.abs().float().mean()
            for one, other in zip(features, wanted, strict=True)
        ]  # fmt: skip
        distance = distance + torch.stack(each).mean() / len(judges)
    return disbelief, distance
