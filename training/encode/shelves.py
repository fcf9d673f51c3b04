"""What the encoding leaves for the language model: agents' sentences, user tracks, the codec's constants.

In: codes. Out: files in `WORK/codes`, and the same read back.
Must not know: sound, models.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from training.talks.tracks import Track, track_from_json

Codes = npt.NDArray[np.int16]
AGENTS, CONSTANTS, TRACKS = "agents", "constants.json", "tracks"


@dataclass(frozen=True)
class Rendering:
    """One sentence of an agent, as codes.

    Attributes:
        start, frames: where it lies. words: frame at which each word begins. utterance: its index in the bank.
    """

    voice: str
    text: str
    start: int
    frames: int
    words: list[int]
    utterance: int


@dataclass
class Agents:
    """All agents' renderings; codes [8, T]."""

    codes: Codes
    renderings: list[Rendering]

    def by_voice(self) -> dict[str, dict[str, list[int]]]:
        """voice -> sentence -> indices of its renderings."""
        found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for index, one in enumerate(self.renderings):
            found[one.voice][one.text].append(index)
        return {voice: dict(texts) for voice, texts in found.items()}

    def of(self, index: int) -> Codes:
        """Codes [8, frames] of one rendering."""
        one = self.renderings[index]
        return self.codes[:, one.start : one.start + one.frames]


@dataclass(frozen=True)
class Constants:
    """Codes of lasting silence and of a 440 Hz tone, 8 each."""

    silence: list[int]
    sine: list[int]


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    """JSON lines, whole or not at all."""
    partial = path.with_suffix(".partial")
    partial.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    partial.replace(path)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The other way."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def write_agents(folder: Path, agents: Agents) -> None:
    """Codes first: without the lines they are not there."""
    np.save(folder / f"{AGENTS}.npy", agents.codes)
    write_lines(folder / f"{AGENTS}.jsonl", [asdict(one) for one in agents.renderings])


def read_agents(folder: Path) -> Agents:
    """The other way."""
    rows = read_lines(folder / f"{AGENTS}.jsonl")
    return Agents(np.load(folder / f"{AGENTS}.npy"), [Rendering(**row) for row in rows])


def write_constants(folder: Path, constants: Constants) -> None:
    """As JSON."""
    (folder / CONSTANTS).write_text(json.dumps(asdict(constants)), encoding="utf-8")


def read_constants(folder: Path) -> Constants:
    """The other way."""
    return Constants(**json.loads((folder / CONSTANTS).read_text(encoding="utf-8")))


def tracks_name(folder: Path, number: int) -> Path:
    """A shelf of tracks, without an ending."""
    return folder / f"{TRACKS}-{number:04d}"


def write_tracks(name: Path, codes: Codes, tracks: list[Track]) -> None:
    """User codes int16 [n, 8, T] and the tracks."""
    np.save(name.with_suffix(".npy"), codes)
    write_lines(name.with_suffix(".jsonl"), [track.as_json() for track in tracks])


def read_tracks(folder: Path) -> tuple[list[Codes], list[Track]]:
    """All tracks; the codes [8, T] of each stay in their file until they are looked at."""
    codes: list[Codes] = []
    tracks: list[Track] = []
    for path in sorted(folder.glob(f"{TRACKS}-*.jsonl")):
        codes.extend(np.load(path.with_suffix(".npy"), mmap_mode="r"))
        tracks.extend(track_from_json(row) for row in read_lines(path))
    return codes, tracks
