"""What happens to a caller's voice on its way: level, room, microphone, telephone, noise, other people.

In: float32 [B, N] clean speech. Out: [B, N] as it is heard, and as a codec should give it back (without the noise).
Must not know: models. Every row draws its own way; random numbers come from torch's generator.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

SAMPLE_RATE = 24_000
ROOM_SAMPLES = 6000
SPEECH_RMS = 0.063  # of shelves: -24 dB


@dataclass(frozen=True)
class Chances:
    """How often each thing happens."""

    channel: float = 0.6
    telephone: float = 0.15
    room: float = 0.4
    noise: float = 0.85
    babble: float = 0.15
    hum: float = 0.1
    clipped: float = 0.05


CALLERS = Chances()


def heard(clean: Tensor, chances: Chances = CALLERS) -> tuple[Tensor, Tensor]:
    """Clean speech at -24 dB as a server hears it, and the same without noise."""
    rows = clean.shape[0]
    voice = _through(clean, _channel(clean, chances) * _room(clean, chances))
    voice = voice * 10 ** (_between(rows, -16.0, 8.0, clean) / 20)
    voice = torch.where(_happens(rows, chances.clipped, clean), (voice * 4).clamp(-0.5, 0.5), voice)
    voice = voice / voice.abs().amax(1, keepdim=True).clamp(min=1.0)
    level = _loud(voice)
    noise = _noise(clean, level, chances) + _babble(clean, level, chances) + _hum(clean, level, chances)
    return voice + noise, voice


def coloured_noise(rows: int, samples: int, colour: Tensor) -> Tensor:
    """[B, N] noise of unit RMS; colour [B]: 0 white, 1 pink, 2 brown."""
    spectrum = torch.fft.rfft(torch.randn(rows, samples, device=colour.device))
    steps = torch.linspace(0, SAMPLE_RATE / 2, spectrum.shape[1], device=colour.device).clamp(min=60) / 60
    made = torch.fft.irfft(spectrum * steps[None] ** (-0.5 * colour[:, None].float()), n=samples)
    return made / made.std(1, keepdim=True)


def _between(rows: int, low: float, high: float, like: Tensor) -> Tensor:
    """[B, 1] uniform."""
    return torch.empty(rows, 1, device=like.device).uniform_(low, high)


def _happens(rows: int, chance: float, like: Tensor) -> Tensor:
    """[B, 1] bool."""
    return torch.rand(rows, 1, device=like.device) < chance


def _loud(voice: Tensor) -> Tensor:
    """[B, 1] RMS of the loud parts."""
    loud = voice.abs() > 0.2 * voice.abs().amax(1, keepdim=True)
    return (
        ((voice.square() * loud).sum(1, keepdim=True) / loud.sum(1, keepdim=True).clamp(min=1)).sqrt().clamp(min=1e-4)
    )


def _through(sound: Tensor, response: Tensor) -> Tensor:
    """A filter [B, N // 2 + 1] over the whole piece, loudness kept."""
    out = torch.fft.irfft(torch.fft.rfft(sound) * response, n=sound.shape[1])
    return out * (sound.square().mean(1, keepdim=True) / out.square().mean(1, keepdim=True).clamp(min=1e-10)).sqrt()


def _channel(clean: Tensor, chances: Chances) -> Tensor:
    """A tilt and the ends of the band of a microphone, or the telephone's band; as gains."""
    rows = clean.shape[0]
    kilohertz = torch.linspace(0, SAMPLE_RATE / 2000, clean.shape[1] // 2 + 1, device=clean.device)[None]
    tilt = (_between(rows, -4, 4, clean) * torch.log2(kilohertz.clamp(min=0.1))).clamp(-20, 20)
    phone = _happens(rows, chances.telephone, clean)
    low = torch.where(phone, 0.3, _between(rows, 0.0, 0.3, clean))
    high = torch.where(phone, 3.4, _between(rows, 3.6, 14.0, clean))
    edges = 40 * torch.sigmoid((low - kilohertz) * 30) + 40 * torch.sigmoid((kilohertz - high) * 8)
    active = (_happens(rows, chances.channel, clean) | phone).float()
    return 10 ** ((tilt - edges) / 20 * active)


def _room(clean: Tensor, chances: Chances) -> Tensor:
    """The spectrum of a room's answer: direct sound and a tail of noise that fades; ones where there is no room."""
    rows = clean.shape[0]
    seconds = torch.arange(ROOM_SAMPLES, device=clean.device)[None] / SAMPLE_RATE
    tail = torch.randn(rows, ROOM_SAMPLES, device=clean.device) * torch.exp(
        -seconds * 6.9 / _between(rows, 0.08, 0.5, clean)
    )
    answer = tail * _between(rows, 0.0, 0.05, clean) * _happens(rows, chances.room, clean)
    answer[:, 0] = 1.0
    return torch.fft.rfft(answer, n=clean.shape[1])


def _noise(clean: Tensor, level: Tensor, chances: Chances) -> Tensor:
    """A steady noise, 8 to 45 dB under the speech."""
    rows, samples = clean.shape
    made = coloured_noise(rows, samples, torch.randint(0, 3, (rows,), device=clean.device))
    return made * level * 10 ** (-_between(rows, 8, 45, clean) / 20) * _happens(rows, chances.noise, clean)


def _babble(clean: Tensor, level: Tensor, chances: Chances) -> Tensor:
    """Others' talk at a distance: the speech of other rows, elsewhere in time, 18 to 35 dB lower."""
    rows, samples = clean.shape
    if rows < 3:
        return torch.zeros_like(clean)
    others = sum(clean.roll((row, samples // (row + 2)), (0, 1)) for row in (1, 2)) / SPEECH_RMS
    return others * level * 10 ** (-_between(rows, 18, 35, clean) / 20) * _happens(rows, chances.babble, clean)


def _hum(clean: Tensor, level: Tensor, chances: Chances) -> Tensor:
    """Mains hum, 50 or 60 Hz with two harmonics, 20 to 40 dB lower."""
    rows, samples = clean.shape
    hertz = torch.where(_happens(rows, 0.5, clean), 50.0, 60.0)
    angle = 2 * torch.pi * hertz * torch.arange(samples, device=clean.device)[None] / SAMPLE_RATE
    tone = torch.sin(angle) + 0.5 * torch.sin(2 * angle) + 0.3 * torch.sin(3 * angle)
    return tone * level * 10 ** (-_between(rows, 20, 40, clean) / 20) * _happens(rows, chances.hum, clean)
