"""`voices.tgz`: voice files by name, read in memory one by one; nothing is ever unpacked onto the disk.

In: an archive's path. Out: the names in it, or the bytes of one. Links, devices and members whose path leads out of the
archive do not exist here; an archive larger than voices can be is refused, however little it claims.
Must not know: what a voice file holds.
"""

from __future__ import annotations

import gzip
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

from personaplex_app.errors import InvalidInput
from personaplex_app.voices import NO_VOICE, is_voice_name

MAX_VOICE_FILE_BYTES = 64 * 2**20
MAX_ARCHIVE_BYTES = 512 * 2**20  # unpacked, headers and all that is passed over included
MAX_MEMBERS = 1000
MAX_EXTENDED_HEADER_BYTES = 64 * 2**10  # long names and the like, which tarfile reads whole
_READ_BYTES = 256 * 2**10
_EXTENDED = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


class _Oversize(Exception):
    """The archive is larger than voices can be; its words say how."""


class _Bounded:
    """What is unpacked of a gzip file, counted: a small file can unpack to any size."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._left = MAX_ARCHIVE_BYTES

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise _Oversize(f"it unpacks to more than {MAX_ARCHIVE_BYTES >> 20} MiB")
        return data


class _Header(tarfile.TarInfo):
    """A member's header whose size is checked before anything of that size is read."""

    @classmethod
    def frombuf(cls, buf: Any, encoding: str, errors: str) -> _Header:
        header = super().frombuf(buf, encoding, errors)
        _check_size(header.size, MAX_EXTENDED_HEADER_BYTES if header.type in _EXTENDED else MAX_VOICE_FILE_BYTES)
        return header


def archived_names(path: Path) -> list[str]:
    """The names of the voices in an archive, sorted; raises InvalidInput where it cannot be read to its end."""
    return sorted({name for name, _ in _voices(path, None)})


def read_archived(path: Path, name: str) -> bytes | None:
    """The bytes of a voice file by name, None where the archive has none; raises InvalidInput."""
    for _, data in _voices(path, name):
        return data
    return None


def _voices(path: Path, wanted: str | None) -> Iterator[tuple[str, bytes]]:
    """Voices by name, with their bytes where they are wanted."""
    try:
        if path.stat().st_size > MAX_ARCHIVE_BYTES:
            raise _Oversize(f"it is larger than {MAX_ARCHIVE_BYTES >> 20} MiB")
        with gzip.open(path, "rb") as file:
            stream: Any = _Bounded(file)  # type: ignore[arg-type]
            with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Header, bufsize=_READ_BYTES) as tar:
                for name, member in _members(tar):
                    if wanted is None:
                        yield name, b""
                    elif name == wanted:
                        yield name, _content(tar, member)
    except _Oversize as error:
        raise InvalidInput(f"{path} is refused: {error}. This is not the released archive of voices.") from None
    except RecursionError:  # tarfile reads an extended header within the one before
        chain = "more extended headers follow one another than a member can have"
        raise InvalidInput(f"{path} is refused: {chain}. This is not the released archive of voices.") from None
    except Exception as error:  # tarfile raises whatever the broken bytes led to
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InvalidInput(f"{path} cannot be read: {reason}. Delete it and fetch it again.") from None


def _members(tar: tarfile.TarFile) -> Iterator[tuple[str, tarfile.TarInfo]]:
    for count, member in enumerate(tar, start=1):
        if count > MAX_MEMBERS:
            raise _Oversize(f"it has more than {MAX_MEMBERS} members")
        _check_size(member.size, MAX_VOICE_FILE_BYTES)  # an extended header can change what the plain one said
        path = PurePosixPath(member.name)
        inside = not path.is_absolute() and ".." not in path.parts
        plain = member.isreg() and not member.issparse()
        if inside and plain and path.suffix == ".pt" and is_voice_name(path.stem) and path.stem != NO_VOICE:
            yield path.stem, member


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    assert file is not None, "a plain file has content"
    return file.read()


def _check_size(size: int, limit: int) -> None:
    if not 0 <= size <= limit:
        raise _Oversize(f"a member of {size} bytes is in it, and {limit} are the most")
