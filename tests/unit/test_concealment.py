"""Holes in sound: as long as what is missing, without a click, and soon silent."""

from __future__ import annotations

import numpy as np
import pytest

from personaplex_app.web.concealment import Concealment, Sound

PIECE = 960


def _tone(hz: float, pieces: int, channels: int = 1) -> list[Sound]:
    at = np.arange(PIECE * pieces) / 48_000
    sound = (8000 * np.sin(2 * np.pi * hz * at) + 3000 * np.sin(4 * np.pi * hz * at + 1)).astype(np.int16)
    return list(np.tile(sound, (channels, 1)).reshape(channels, pieces, PIECE).transpose(1, 0, 2))


def _through(pieces: list[Sound | None]) -> Sound:
    covering = Concealment()
    return np.concatenate([covering.hole() if piece is None else covering.good(piece) for piece in pieces], axis=1)


def test_without_holes_nothing_changes() -> None:
    tone = _tone(150, 5)
    assert np.array_equal(_through(list(tone)), np.concatenate(tone, axis=1))


@pytest.mark.parametrize("hz", [80.0, 120.0, 190.0, 250.0, 390.0])
def test_a_voice_goes_on_through_a_hole(hz: float) -> None:
    tone = _tone(hz, 6)
    holed: list[Sound | None] = [*tone[:3], None, *tone[4:]]
    whole, heard = np.concatenate(tone, axis=1)[0].astype(float), _through(holed)[0].astype(float)
    hole = slice(3 * PIECE, 4 * PIECE)
    assert np.corrcoef(whole[hole], heard[hole])[0, 1] > 0.9
    assert np.abs(np.diff(heard)).max() < 1.5 * np.abs(np.diff(whole)).max()
    assert np.array_equal(whole[4 * PIECE + 240 :], heard[4 * PIECE + 240 :])


def test_holes_in_a_row_fade_into_silence() -> None:
    heard = _through([*_tone(150, 4), None, None, None, None])
    loudness = [np.abs(heard[0, at : at + PIECE]).max() for at in range(4 * PIECE, 8 * PIECE, PIECE)]
    assert loudness[0] > 5000 > loudness[1] > 0 == loudness[2] == loudness[3]
    assert np.abs(np.diff(heard[0].astype(int))).max() < 800


def test_after_silence_sound_fades_in() -> None:
    tone = _tone(150, 6)
    tone[5] = np.full((1, PIECE), 9000, np.int16)
    heard = _through([*tone[:2], None, None, None, tone[5]])
    assert np.abs(np.diff(heard[0, 5 * PIECE - 5 :].astype(int))).max() < 100


def test_both_channels_are_covered() -> None:
    heard = _through([*_tone(150, 3, channels=2), None])
    assert heard.shape == (2, 4 * PIECE) and np.array_equal(heard[0], heard[1]) and heard[0, -PIECE:].any()


def test_before_any_sound_there_is_nothing_to_go_on_with() -> None:
    assert _through([None, None]).shape == (1, 0)


@pytest.mark.parametrize("samples", [1, 100, 480, 2880])
def test_pieces_of_any_length_are_covered(samples: int) -> None:
    piece = np.arange(samples, dtype=np.int16).reshape(1, -1)
    heard = _through([piece, None, None, piece, None])
    assert heard.shape == (1, 5 * samples) and heard.dtype == np.int16


def test_a_change_of_channels_is_no_trouble() -> None:
    covering = Concealment()
    covering.good(_tone(150, 1)[0])
    covering.hole()
    assert covering.good(_tone(150, 1, channels=2)[0]).shape == (2, PIECE)
    assert covering.hole().shape == (2, PIECE)


def test_a_loud_sound_does_not_overflow() -> None:
    loud = np.full((1, PIECE), 32767, np.int16)
    assert _through([loud, loud, None, loud]).min() >= 0
