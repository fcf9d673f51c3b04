"""A stranger's clip is decoded whatever its dress, counted as it comes, and breaks nothing where it is a trap."""

from __future__ import annotations

import functools
import io
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest
from support.clips import at_rate, container, flac_bomb, opus_bomb, patched, sound_file, speech

from personaplex_app import clip_decoder, clip_reader
from personaplex_app.audio import SAMPLE_RATE_HZ
from personaplex_app.clip_decoder import MOST_SECONDS, decode
from personaplex_app.clip_reader import ROOT, TOO_SLOW, UNREADABLE, read_clip
from personaplex_app.errors import InvalidInput, ServerFault

SECONDS = 4
MOST_CPU_SECONDS = 2.0
MOST_MEMORY_BYTES = 200 << 20


def said(seconds: float = SECONDS) -> np.ndarray:
    return speech()[: round(seconds * SAMPLE_RATE_HZ)]


def decoded(data: bytes) -> np.ndarray:
    return np.concatenate(decode(data)[1])


def likeness(pcm: np.ndarray, other: np.ndarray) -> float:
    """1 for the same sound, wherever in the first 100 ms it begins."""
    length = min(len(pcm), len(other)) - 2_400
    spectrum = np.fft.rfft(pcm, 2 * len(pcm)) * np.conj(np.fft.rfft(other[:length], 2 * len(pcm)))
    best = np.fft.irfft(spectrum)[:2_400].max()
    return float(best / (np.linalg.norm(pcm) * np.linalg.norm(other[:length])))


DRESSES: dict[str, Callable[[], bytes]] = {
    "wav": lambda: sound_file(said()),
    "wav 24 bit": lambda: sound_file(said(), subtype="PCM_24"),
    "wav float": lambda: sound_file(said(), subtype="FLOAT"),
    "wav a-law": lambda: sound_file(said(), subtype="ALAW"),
    "flac": lambda: sound_file(said(), 44_100, 2, "FLAC"),
    "mp3": lambda: sound_file(said(), 44_100, 2, "MP3", "MPEG_LAYER_III"),
    "ogg vorbis": lambda: sound_file(said(), 48_000, 1, "OGG", "VORBIS"),
    "ogg opus": lambda: container(said(), "ogg", "libopus"),
    "webm, as Chromium records": lambda: container(said(), "webm", "libopus"),
    "m4a": lambda: container(said(), "ipod", "aac"),
    "mp4, as Safari records": lambda: container(said(), "mp4", "aac", 44_100),
    "a film": lambda: container(said(), "matroska", "libopus", video=True),
}


@pytest.mark.parametrize("dress", DRESSES)
def test_a_clip_is_read_in_every_dress(dress: str) -> None:
    pcm = decoded(DRESSES[dress]())
    assert len(pcm) / SAMPLE_RATE_HZ == pytest.approx(SECONDS, abs=0.1)
    assert likeness(pcm, said()) > 0.9, "the same sound"


@pytest.mark.parametrize("rate_hz", [8_000, 11_025, 22_050, 44_100, 96_000, 192_000])
def test_any_usual_rate_will_do(rate_hz: int) -> None:
    facts, pieces = decode(sound_file(said(), rate_hz))
    assert facts == {"damaged": False, "rate_hz": rate_hz, "channels": 1}
    assert abs(sum(map(len, pieces)) - len(said())) <= 24 and likeness(np.concatenate(pieces), said()) > 0.9


@pytest.mark.parametrize("channels", [2, 3, 6, 8])
def test_several_channels_become_their_mean(channels: int) -> None:
    assert np.abs(decoded(sound_file(said(), channels=channels)) - said()).max() < 1e-3


def test_of_several_streams_the_first_is_read() -> None:
    assert likeness(decoded(container(said(), "matroska", "libopus", streams=3)), said()) > 0.9


@pytest.mark.parametrize("dress", ["wav", "mp3", "flac", "webm, as Chromium records", "ogg opus"])
def test_of_a_file_that_breaks_off_what_is_there_is_read(dress: str) -> None:
    data = DRESSES[dress]()
    pcm = decoded(data[: 2 * len(data) // 3])
    assert 0.3 * SECONDS < len(pcm) / SAMPLE_RATE_HZ < 0.8 * SECONDS and likeness(pcm, said()) > 0.8


def test_bytes_that_are_spoiled_in_the_middle_are_told() -> None:
    data = bytearray(DRESSES["mp3"]())
    data[len(data) // 2 : len(data) // 2 + 3000] = bytes(3000)
    facts, pieces = decode(bytes(data))
    assert facts["damaged"] and sum(map(len, pieces)) > SAMPLE_RATE_HZ


NO_CLIPS: dict[str, tuple[Callable[[], bytes], str]] = {
    "nothing": (lambda: b"", "no sound file"),
    "zeros": (lambda: bytes(100_000), "no sound file"),
    "text": (lambda: b"hello " * 1000, "no sound file"),
    "a picture": (lambda: b"\x89PNG\r\n\x1a\n" + bytes(1000), "no sound file"),
    "an m4a's first half": (lambda: DRESSES["m4a"]()[:10_000], "no sound file"),
    "a wav's head": (lambda: sound_file(said(0)), "no sound"),
    "a silent film": (lambda: _without_sound(), "no sound in this file"),
    "another codec": (lambda: sound_file(said(), subtype="IMA_ADPCM"), "stored in a way that cannot be read"),
    "too few samples": (lambda: _raw_rate(7_999), "7999 samples a second; 8000 to 192000"),
    "too many samples": (lambda: _raw_rate(192_001), "192001 samples a second"),
    "too many channels": (lambda: sound_file(said(1), channels=9), "9 channels; at most 8"),
    "no numbers": (lambda: sound_file(np.full(9_600, np.nan), subtype="FLOAT"), "samples that are not numbers"),
}


def _without_sound() -> bytes:
    return container(said(0.1), "matroska", "libopus", streams=0, video=True)


def _raw_rate(rate_hz: int) -> bytes:
    data = sound_file(said(1))
    return data[:24] + rate_hz.to_bytes(4, "little") + data[28:]


@pytest.mark.parametrize("kind", NO_CLIPS)
def test_what_is_no_clip_is_refused_in_words(kind: str) -> None:
    make, sentence = NO_CLIPS[kind]
    with pytest.raises(InvalidInput, match=sentence) as refused:
        decode(make())
    assert refused.value.code == "clip_unreadable"


# What is decoded is counted.


MEASURED = """
import resource, runpy, sys
status = open("/proc/self/status")
runpy.run_module("personaplex_app.clip_decoder", run_name="__main__")
usage = resource.getrusage(resource.RUSAGE_SELF)
(peak,) = [line.split()[1] for line in status if line.startswith("VmHWM")]
print(usage.ru_utime + usage.ru_stime, peak, file=sys.stderr)
"""


def _spent(data: bytes) -> tuple[float, int, bytes]:
    """CPU seconds and memory of the process that reads it, and what it says first."""
    run = subprocess.run([sys.executable, "-c", MEASURED], input=data, capture_output=True, cwd=ROOT, check=True)
    seconds, peak_kib = run.stderr.split()
    return float(seconds), int(peak_kib) << 10, run.stdout.partition(b"\n")[0]


BOMBS: dict[str, tuple[Callable[[], bytes], bytes]] = {
    "seven minutes of Opus": (lambda: long_opus(), b"longer than 5 minutes"),
    "as much, told nowhere": (lambda: opus_bomb(420, "webm", told=False), b"longer than 5 minutes"),
    "flac, up to the bound": (lambda: flac_bomb(MOST_SECONDS, 96_000, 1), b'"rate_hz": 96000'),
    "flac, 192 kHz, 8 channels": (lambda: flac_bomb(40, 192_000, 8), b"million samples after"),
    "an mp4 of two thousand million samples": (lambda: _mp4_of(0x7FFFFFF0), b"no sound"),
    "an mp4 of ten million samples": (lambda: _mp4_of(10_000_000), b"no sound"),
}


@functools.cache
def long_opus() -> bytes:
    return opus_bomb(420)


def _mp4_of(samples: int) -> bytes:
    data = DRESSES["m4a"]()
    for box, offset, value in (
        (b"stsz", 4, 1),
        (b"stsz", 8, samples),
        (b"stts", 8, samples),
        (b"stsc", 4, 1),
        (b"stsc", 12, samples),
    ):
        data = patched(data, box, offset, value)
    return data


@pytest.mark.timed
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_costs_little_time_and_memory(bomb: str) -> None:
    make, said_of_it = BOMBS[bomb]
    data = make()
    seconds, memory_bytes, reply = _spent(data)
    assert len(data) < 1 << 20 and said_of_it in reply
    assert seconds <= MOST_CPU_SECONDS and memory_bytes <= MOST_MEMORY_BYTES


def _frames_seen(monkeypatch: pytest.MonkeyPatch, data: bytes) -> int:
    """How many frames of a clip that is too long are decoded."""
    seen: list[float] = []
    counted = clip_decoder._check_kind
    monkeypatch.setattr(clip_decoder, "_check_kind", lambda *args: (seen.append(1), counted(*args))[1])
    with pytest.raises(InvalidInput, match="longer than 5 minutes") as refused:
        decode(data)
    assert refused.value.code == "clip_long"
    return len(seen)


def test_of_a_bomb_nothing_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _frames_seen(monkeypatch, long_opus()) == 0


def test_what_tells_a_lie_of_its_length_is_counted_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clip_decoder, "_check_length", lambda data: None)
    assert _frames_seen(monkeypatch, long_opus()) == MOST_SECONDS * 50 + 1, "frames of 20 ms"


def test_a_short_clip_that_tells_no_length_is_read() -> None:
    facts, pieces = decode(opus_bomb(4, "webm", told=False))
    assert not facts["damaged"] and sum(map(len, pieces)) == pytest.approx(4 * SAMPLE_RATE_HZ, abs=SAMPLE_RATE_HZ // 25)


# Nothing but what was sent is ever opened.

PLAYLISTS = {
    "m3u8": "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n{address}\n#EXT-X-ENDLIST\n",
    "concat": "ffconcat version 1.0\nfile '{address}'\n",
    "dash": '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" profiles="urn:mpeg:dash:profile:isoff-on-'
    'demand:2011"><Period><AdaptationSet mimeType="audio/mp4"><Representation id="1" bandwidth="1"><BaseURL>{address}'
    "</BaseURL></Representation></AdaptationSet></Period></MPD>",
    "sdp": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=audio 5004 RTP/AVP 0\n",
    "smooth": '<SmoothStreamingMedia><StreamIndex Url="{address}"/></SmoothStreamingMedia>',
}


def test_a_concat_script_is_a_trap_for_the_careless(tmp_path: Path) -> None:
    (tmp_path / "secret.wav").write_bytes(sound_file(said()))
    script = PLAYLISTS["concat"].format(address=tmp_path / "secret.wav").encode()
    with av.open(io.BytesIO(script), format="concat", options={"safe": "0"}) as opened:
        assert sum(frame.samples for frame in opened.decode(audio=0)) == len(said()), "it reads the server's file"


@pytest.mark.parametrize("kind", PLAYLISTS)
def test_a_playlist_opens_neither_a_file_nor_a_connection(tmp_path: Path, kind: str) -> None:
    (tmp_path / "secret.wav").write_bytes(sound_file(said()))
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        web = f"http://127.0.0.1:{server.getsockname()[1]}/secret.wav"
        for address in (str(tmp_path / "secret.wav"), f"file://{tmp_path}/secret.wav", web):
            with pytest.raises(InvalidInput, match="no sound file"):
                decode(PLAYLISTS[kind].format(address=address).encode())
        with pytest.raises(BlockingIOError):
            server.accept()


POWERS = """
import socket, resource
from personaplex_app import clip_decoder
clip_decoder._load_all()
clip_decoder._give_up_powers()
def works(act):
    try:
        act()
        return True
    except (OSError, MemoryError):
        return False
too_much = (
    lambda: open("/etc/hostname"), lambda: open("/tmp/clip", "w"), socket.socket, lambda: bytearray(200 << 20)
)
print([works(act) for act in too_much], works(lambda: bytearray(1 << 20)))
print(resource.getrlimit(resource.RLIMIT_CORE), resource.getrlimit(resource.RLIMIT_CPU))
"""


def test_the_process_that_reads_can_open_nothing_and_holds_little() -> None:
    told = subprocess.run([sys.executable, "-c", POWERS], capture_output=True, text=True, cwd=ROOT, check=True)
    assert told.stdout.splitlines() == ["[False, False, False, False] True", "(0, 0) (10, 10)"]


# What goes wrong in that process goes wrong there alone.


def test_a_clip_is_read_as_it_was_sent() -> None:
    clip = read_clip(sound_file(said(), 48_000, 2))
    assert (clip.rate_hz, clip.damaged) == (48_000, False) and clip.pcm.dtype == np.float32
    expected = at_rate(said(), 48_000)[::2, 0]
    assert len(clip.pcm) == pytest.approx(len(expected), abs=24) and likeness(clip.pcm, said()) > 0.9


def test_what_the_decoder_refuses_is_told() -> None:
    with pytest.raises(InvalidInput, match="no sound file that can be read; send wav") as refused:
        read_clip(b"hello")
    assert refused.value.code == "clip_unreadable"


def python(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(clip_reader, "COMMAND", (sys.executable, "-c", program))


def test_a_decoder_that_crashes_ends_a_clip_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    python(monkeypatch, f"import os; os.kill(os.getpid(), {signal.SIGSEGV:d})")
    with pytest.raises(InvalidInput, match=UNREADABLE) as refused:
        read_clip(bytes(10))
    assert refused.value.code == "clip_unreadable" and f"ended with -{signal.SIGSEGV:d}" in caplog.text


def test_a_decoder_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    python(monkeypatch, "import time; time.sleep(60)")
    with pytest.raises(InvalidInput, match=TOO_SLOW) as refused:
        read_clip(bytes(10), timeout_seconds=0.3)
    assert refused.value.code == "clip_slow"


def test_where_no_process_can_be_started_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clip_reader, "COMMAND", ("/nowhere/python",))
    with pytest.raises(ServerFault, match="tell the operator"):
        read_clip(bytes(10))


def test_the_decoder_is_told_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_TOKEN", "PERSONAPLEX_SECRET", "PERSONAPLEX_TURN_SECRET"):
        monkeypatch.setenv(name, "secret")
    python(monkeypatch, 'import json, os; print(json.dumps({"refused": " ".join(os.environ), "code": "x"}))')
    with pytest.raises(InvalidInput) as told:
        read_clip(bytes(10))
    assert "PATH" in told.value.sentence and "SECRET" not in told.value.sentence and "TOKEN" not in told.value.sentence
