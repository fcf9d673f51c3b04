"""Voice files as found, as broken, and as traps."""

from __future__ import annotations

import io
import pickle
import tarfile
from pathlib import Path
from typing import Any

import torch


class Trap:
    """Unpickled by a careless reader, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def saved(content: Any, **options: Any) -> bytes:
    """What `torch.save` writes."""
    file = io.BytesIO()
    torch.save(content, file, **options)
    return file.getvalue()


def traps(mark: Path) -> dict[str, bytes]:
    """Booby-trapped files in every dress; whoever executes one makes the file `mark`."""
    fields = {"embeddings": torch.zeros(3, 1, 1, 32), "cache": torch.zeros(1, 17, 4, dtype=torch.int64)}
    state = Trap(mark)
    return {
        "zip": saved(state),
        "zip in a field": saved(fields | {"cache": state}),
        "zip beside the fields": saved(fields | {"extra": state}),
        "old torch format": saved(fields | {"cache": state}, _use_new_zipfile_serialization=False),
        "bare pickle": pickle.dumps(state),
        "key": saved({state: 1}),
    }


def good_fields(directory: Path) -> dict[str, torch.Tensor]:
    """The fields of the miniature's own voice."""
    return torch.load(directory / "voices" / "TINY0.pt", map_location="cpu", weights_only=True)


def archive(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    """A `.tgz` of these members."""
    with tarfile.open(path, "w:gz") as tar:
        for member, content in members:
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    """A member of an archive; links name their target."""
    found = tarfile.TarInfo(name)
    found.type, found.linkname = kind, target
    return found
