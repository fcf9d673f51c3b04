"""Previews that were made: WAV files by voice, in the cache directory and in memory.

In: a directory of one checkpoint, WAV files as bytes. Out: the same, or None for one that has to be made (anew).
Must not know: how a preview is made, the web.
"""

from __future__ import annotations

import contextlib
import io
import logging
import secrets
from pathlib import Path

import soundfile

from personaplex_app.audio import SAMPLE_RATE_HZ
from personaplex_app.voices import check_voice_name

log = logging.getLogger(__name__)

MOST_BYTES = 1 << 20
MOST_SECONDS = 12


class PreviewShelf:
    """Voices' sound by name; a name that is no voice's is refused before any file is touched.

    Args:
        directory: where the files lie, or None where nothing is kept beyond this process.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._here: dict[str, bytes] = {}

    def __contains__(self, voice: str) -> bool:
        """Whether it is in memory."""
        return voice in self._here

    def find(self, voice: str) -> bytes | None:
        """The sound, from memory or else from a file that is a preview; reads files, so call it in a thread."""
        check_voice_name(voice)
        if voice not in self._here and self._directory is not None:
            wav = _read(self._directory / f"{voice}.wav")
            if wav is not None:
                self._here[voice] = wav
        return self._here.get(voice)

    def put(self, voice: str, wav: bytes) -> None:
        """Keeps a sound; where the directory cannot be written it is kept in memory alone."""
        self._here[check_voice_name(voice)] = wav
        if self._directory is None:
            return
        partial = self._directory / f".{voice}-{secrets.token_hex(4)}.partial"
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(wav)
            partial.replace(self._directory / f"{voice}.wav")
        except OSError as error:
            log.warning("the preview of %s cannot be kept in %s: %s", voice, self._directory, error.strerror or error)
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)


def _read(path: Path) -> bytes | None:
    """A file's bytes where they are a short mono sound of ours; None for anything else."""
    try:
        if path.stat().st_size > MOST_BYTES:
            return None
        wav = path.read_bytes()
        pcm, rate_hz = soundfile.read(io.BytesIO(wav), dtype="int16")
    except (OSError, soundfile.LibsndfileError):
        return None
    whole = int.from_bytes(wav[4:8], "little") == len(wav) - 8  # as RIFF has it: the length of what follows
    good = whole and rate_hz == SAMPLE_RATE_HZ and pcm.ndim == 1 and 0 < len(pcm) <= MOST_SECONDS * SAMPLE_RATE_HZ
    return wav if good else None
