"""Measuring what two tracks of a call have to do with each other."""

from __future__ import annotations

import numpy as np

from personaplex_app.audio import Pcm

CLICK_SECONDS = 0.02
CLICK_GAP_SECONDS = 0.733


def clicks(seconds: float, rate_hz: int = 48_000) -> Pcm:
    """Short tone bursts at odd distances, so that they meet every phase of a frame."""
    pcm = np.zeros(int(seconds * rate_hz), dtype=np.float32)
    length = int(CLICK_SECONDS * rate_hz)
    burst = np.hanning(length) * np.sin(2 * np.pi * 1500 * np.arange(length) / rate_hz) * 0.6
    at = 0.4
    while at + CLICK_GAP_SECONDS < seconds:
        start = int(at * rate_hz)
        pcm[start : start + length] = burst
        at += CLICK_GAP_SECONDS
    return pcm


def onsets(pcm: Pcm, rate_hz: int) -> list[int]:
    """Samples at which a burst begins."""
    window = rate_hz // 200
    envelope = np.convolve(np.abs(pcm), np.ones(window) / window, "same")
    loud = envelope > envelope.max() * 0.3
    rises = np.flatnonzero(loud[1:] & ~loud[:-1])
    kept: list[int] = []
    for rise in rises:
        if not kept or rise - kept[-1] > 0.3 * rate_hz:
            kept.append(int(rise))
    return kept


def latencies_ms(said: Pcm, heard: Pcm, rate_hz: int) -> list[float]:
    """From every burst said to its coming back."""
    returned = onsets(heard, rate_hz)
    found = []
    for start in onsets(said, rate_hz):
        later = [at for at in returned if 0 < at - start < 0.7 * rate_hz]
        if later:
            found.append(1000 * (later[0] - start) / rate_hz)
    return found


def aligned_correlation(said: Pcm, heard: Pcm, rate_hz: int) -> tuple[float, float]:
    """The best correlation over delays of up to a second, and that delay in milliseconds."""
    count = min(len(said), len(heard))
    said, heard = said[:count] - said[:count].mean(), heard[:count] - heard[:count].mean()
    size = 1 << (2 * count - 1).bit_length()
    product = np.fft.irfft(np.fft.rfft(heard, size) * np.conj(np.fft.rfft(said, size)), size)[:rate_hz]
    delay = int(np.argmax(product))
    energy = np.sqrt(np.sum(said[: count - delay] ** 2) * np.sum(heard[delay:] ** 2))
    return float(product[delay] / energy), 1000 * delay / rate_hz


def best_correlation(said: Pcm, heard: Pcm, rate_hz: int, seconds: float = 4.0) -> float:
    """Of the best window: where the delay is adjusted, in the first seconds say, no single alignment fits."""
    window = int(seconds * rate_hz)
    found = []
    for start in range(0, min(len(said), len(heard)) - window, window):
        part = slice(start, start + window)
        if np.abs(said[part]).max() > 0.01:
            found.append(aligned_correlation(said[part], heard[part], rate_hz)[0])
    return max(found)
