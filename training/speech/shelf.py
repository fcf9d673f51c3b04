"""Shelves of utterances: sound in one file, one JSON line an utterance; Opus to travel, int16 to train from.

In: utterances. Out: `NAME.opus` or `NAME.npy`, beside it `NAME.jsonl`; both whole or not there.
Must not know: how speech is made or used.
"""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile

from training.speech.levels import SAMPLE_RATE, Sound

GAP = 2400  # samples of silence between two utterances that travel
COMPRESSION = 0.95  # of Opus, from 0 to 1: about 18 kbit/s, in which Whisper mishears no more than in 23


@dataclass(frozen=True)
class Utterance:
    """One sentence, said once.

    Attributes:
        who: agent or user. voice: speaker's name. start, samples: where it lies on its shelf.
        word_starts: seconds, one a word, for agents. family: of voices; read off the shelf's name.
    """

    who: str
    voice: str
    text: str
    start: int = 0
    samples: int = 0
    word_starts: list[float] = field(default_factory=list)
    family: str = ""


Said = tuple[Utterance, Sound]


def write_shelf(folder: Path, name: str, said: Iterable[Said], *, packed: bool) -> int:
    """Writes one shelf; returns how many utterances it holds."""
    utterances, pieces, at = [], [], 0
    for utterance, pcm in said:
        utterances.append(replace(utterance, start=at, samples=len(pcm)))
        pieces += [pcm, np.zeros(GAP if packed else 0, np.float32)]
        at += len(pcm) + (GAP if packed else 0)
    folder.mkdir(parents=True, exist_ok=True)
    joined = np.concatenate(pieces) if pieces else np.zeros(1, np.float32)
    _write_sound(folder, name, joined, packed)
    partial = folder / f"{name}.partial"
    lines = [json.dumps(asdict(one), ensure_ascii=False) for one in utterances]
    partial.write_text("\n".join(lines) + "\n", encoding="utf-8")
    partial.replace(folder / f"{name}.jsonl")  # last: a shelf without it is not there
    return len(utterances)


def _write_sound(folder: Path, name: str, pcm: Sound, packed: bool) -> None:
    if packed:
        with (folder / f"{name}.opus").open("wb") as file:
            soundfile.write(
                file, pcm, SAMPLE_RATE, format="OGG", subtype="OPUS", compression_level=COMPRESSION
            )  # fmt: skip
    else:
        np.save(folder / f"{name}.npy", (np.clip(pcm, -1, 1) * 32767).astype(np.int16))


def shelves(folder: Path) -> list[Path]:
    """The shelves in and below a folder that are whole, as paths without an ending."""
    return sorted(path.with_suffix("") for path in folder.rglob("*.jsonl"))


@dataclass
class Bank:
    """All shelves of a folder joined.

    Attributes:
        sound: int16 [n]. utterances: with `start` counted through the whole bank.
    """

    sound: npt.NDArray[np.int16]
    utterances: list[Utterance]

    def pcm(self, utterance: Utterance) -> Sound:
        """float32 of one utterance."""
        piece = self.sound[utterance.start : utterance.start + utterance.samples]
        return piece.astype(np.float32) / np.float32(32767)


def read_bank(folder: Path) -> Bank:
    """Reads every shelf in and below a folder."""
    sounds: list[npt.NDArray[np.int16]] = [np.zeros(0, np.int16)]
    utterances: list[Utterance] = []
    at = 0
    for shelf in shelves(folder):
        sound = _read_sound(shelf)
        for one in _read_lines(shelf.with_suffix(".jsonl")):
            if one.start + one.samples <= len(sound):
                utterances.append(replace(one, start=at + one.start, family=shelf.name.split("-")[0]))
        sounds.append(sound)
        at += len(sound)
    return Bank(np.concatenate(sounds), utterances)


def unpack(folder: Path, processes: int) -> None:
    """What travelled as Opus lies as int16 afterwards: decoded once and not by every step that reads it."""
    packed = [shelf for shelf in shelves(folder) if not shelf.with_suffix(".npy").exists()]
    if packed:
        with multiprocessing.get_context("spawn").Pool(min(processes, len(packed))) as pool:
            pool.map(_unpack, packed, 1)


def _unpack(shelf: Path) -> None:
    np.save(shelf.with_suffix(".npy"), _read_sound(shelf))
    shelf.with_suffix(".opus").unlink()


def _read_sound(shelf: Path) -> npt.NDArray[np.int16]:
    plain = shelf.with_suffix(".npy")
    if plain.exists():
        loaded: npt.NDArray[np.int16] = np.load(plain)
        return loaded
    with shelf.with_suffix(".opus").open("rb") as file:
        pcm, rate = soundfile.read(file, dtype="int16")
    if rate != SAMPLE_RATE:
        raise ValueError(f"{shelf}.opus came back at {rate} Hz")
    unpacked: npt.NDArray[np.int16] = pcm
    return unpacked


def _read_lines(path: Path) -> Iterator[Utterance]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line:
            yield Utterance(**json.loads(line))
