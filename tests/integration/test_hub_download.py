"""Fetching goes on where it broke, is told in bytes, and a disk that is too small or full is told in numbers."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from huggingface_hub import constants
from huggingface_hub.utils.tqdm import are_progress_bars_disabled
from support.hub import FIRST_COMMIT, Place, forget_broken_answers, point_at
from support.hub_place import LARGE_BYTES, place

from personaplex_app.model import byte_progress, hub_download, hub_space
from personaplex_app.model.checkpoint import CODEC_FILE, WEIGHTS_FILE
from personaplex_app.model.hub import FILES

__all__ = ["place"]
# `requests` leaves an answer that breaks off to Python, whose collector may come in the midst of a test.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

MB = 10**6


@pytest.fixture(autouse=True)
def broken_answers_end_here() -> Iterator[None]:
    yield
    forget_broken_answers()


def _sent(place: Place, name: str) -> list[int]:
    """From which bytes on a file was sent."""
    return [first for file, first in place.hub.fetched if file == name]


def test_a_line_that_breaks_is_gone_on_with_at_once(place: Place) -> None:
    place.hub.breaks[WEIGHTS_FILE] = [1_500_000, 1_200_000, -1]
    assert (place.fetch() / WEIGHTS_FILE).read_bytes() == place.hub.files[WEIGHTS_FILE]
    starts = _sent(place, WEIGHTS_FILE)
    assert len(starts) == 3 and 0 == starts[0] < starts[1] < starts[2] < LARGE_BYTES
    assert "The connection broke at 1.05 MB of 3.00 MB of model.safetensors; going on in 0 s" in place.lines


def test_tries_that_bring_nothing_come_to_an_end_and_the_next_start_goes_on(place: Place) -> None:
    place.hub.breaks[WEIGHTS_FILE] = [1_500_000, 0, 0, 0]
    told = place.refused()
    assert (
        told.startswith("The connection to the Hub broke") and "Start again; what is here is kept and goes on." in told
    )
    assert place.hub.breaks[WEIGHTS_FILE] == [], "one that brought something, three that did not"
    assert place.pin is None and place.partial(WEIGHTS_FILE).stat().st_size == 2**20
    place.hub.breaks[WEIGHTS_FILE] = [-1]
    place.hub.asked.clear()
    assert place.fetch().name == FIRST_COMMIT
    assert place.hub.fetched == [(WEIGHTS_FILE, 2**20)], "the other files are here already"


def test_a_process_that_was_killed_is_gone_on_with(place: Place) -> None:
    place.fetch()
    whole = place.blob(WEIGHTS_FILE)
    place.partial(WEIGHTS_FILE).write_bytes(whole.read_bytes()[:777_777])
    whole.unlink()
    place.hub.asked.clear()
    assert (place.fetch() / WEIGHTS_FILE).read_bytes() == place.hub.files[WEIGHTS_FILE]
    assert place.hub.fetched == [(WEIGHTS_FILE, 777_777)]
    assert place.lines[0] == "Fetching 5 files from nvidia/personaplex-7b-v1: 3.01 MB in all, 786 kB of it here"


def test_a_part_longer_than_the_file_is_begun_anew(place: Place) -> None:
    place.repository.joinpath("blobs").mkdir(parents=True)
    place.partial(CODEC_FILE).write_bytes(b"x" * 100_000)
    assert (place.fetch() / CODEC_FILE).read_bytes() == place.hub.files[CODEC_FILE]


def test_a_hub_that_vanishes_meanwhile_is_told_and_gone_on_with(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    real, url = hub_download.hf_hub_download, place.hub.url

    def vanishing(repository: str, name: str, **options: object) -> str:
        if name == WEIGHTS_FILE:
            monkeypatch.setattr("huggingface_hub.utils._http.time", SimpleNamespace(sleep=lambda seconds: None))
            point_at("http://127.0.0.1:9", monkeypatch)
        return real(repository, name, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(hub_download, "hf_hub_download", vanishing)
    assert place.refused().startswith(
        "The connection to the Hub broke (HF_ENDPOINT is http://127.0.0.1:9). Start again"
    )
    monkeypatch.setattr(hub_download, "hf_hub_download", real)
    point_at(url, monkeypatch)
    place.hub.asked.clear()
    place.fetch()
    assert place.hub.fetched == [(WEIGHTS_FILE, 0)]


def test_progress_is_told_while_a_file_comes(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_progress, "QUIET_SECONDS", 0.05)
    monkeypatch.setitem(hub_download._STEADY, "DOWNLOAD_CHUNK_SIZE", 100_000)
    place.hub.slow = {WEIGHTS_FILE: 0.6}
    place.fetch()
    line = re.compile(
        r"Fetching model.safetensors \(5 of 5\): [\d.]+ [kM]B of 3.00 MB, (\d+) %, [\d.]+ [kM]B/s, \d+ s left"
    )
    percents = [int(found[1]) for found in map(line.fullmatch, place.lines) if found]
    assert len(percents) >= 3 and percents == sorted(percents) and percents[0] < 60


def test_the_library_is_left_as_it_was_and_draws_no_bar(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    before = (constants.HF_HUB_DISABLE_XET, constants.HF_HUB_ENABLE_HF_TRANSFER, constants.DOWNLOAD_CHUNK_SIZE)
    place.fetch()
    after = (constants.HF_HUB_DISABLE_XET, constants.HF_HUB_ENABLE_HF_TRANSFER, constants.DOWNLOAD_CHUNK_SIZE)
    assert before == after and not are_progress_bars_disabled()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("way", ["xet", "hf_transfer"])
def test_a_faster_way_that_cannot_go_on_is_not_taken(place: Place, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """The Hub offers Xet; images of RunPod and others ask for hf_transfer, often without the package."""
    if way == "xet":
        place.hub.extra[WEIGHTS_FILE] = {"X-Xet-Hash": "c" * 64, "X-Xet-Refresh-Route": f"{place.hub.url}/api/xet"}
    else:
        monkeypatch.setattr(constants, "HF_HUB_ENABLE_HF_TRANSFER", True)
    place.hub.breaks[WEIGHTS_FILE] = [2_000_000, -1]
    place.fetch()
    assert _sent(place, WEIGHTS_FILE) == [0, 2**20] and not any("xet" in path for path in place.hub.paths)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """A disk whose free bytes the test says; the library's own warning is of the real one."""
    disk = SimpleNamespace(free=10**12)
    monkeypatch.setattr(hub_space, "free_bytes", lambda folder: disk.free)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Not enough free disk space")
        yield disk


def test_a_disk_too_small_is_told_in_numbers_before_the_first_byte(place: Place, disk: SimpleNamespace) -> None:
    place.hub.sizes = {WEIGHTS_FILE: 16_743 * MB, CODEC_FILE: 385 * MB}
    disk.free = 3_200 * MB
    assert place.refused() == (
        f"The disk is too small: 17.1 GB are still to be fetched (17.1 GB in all), and in {place.home} 3.20 GB are "
        "free. Free 14.3 GB, or set HF_HOME to a folder on a larger disk; 50.0 GB are advised."
    )
    assert place.hub.fetched == [] and not place.home.exists()


def test_what_lies_in_the_cache_is_not_counted_again(place: Place, disk: SimpleNamespace) -> None:
    place.repository.joinpath("blobs").mkdir(parents=True)
    with place.partial(WEIGHTS_FILE).open("wb") as file:
        file.truncate(16_000 * MB)
    place.hub.sizes = {WEIGHTS_FILE: 16_743 * MB}
    disk.free = 750 * MB
    assert "743 MB are still to be fetched (16.7 GB in all, 16.0 GB of it here)" in place.refused()
    disk.free = 770 * MB
    assert "disk is too small" not in place.refused(), "what is sent here is shorter than was said"


def test_a_disk_that_just_suffices_is_advised_against(place: Place, disk: SimpleNamespace) -> None:
    disk.free = 30_000 * MB
    place.fetch()
    assert place.lines[1] == f"30.0 GB are free in {place.home}; that is enough, 50.0 GB are advised"
    disk.free = 60_000 * MB
    place.blob(WEIGHTS_FILE).unlink()
    place.fetch()
    assert not any("advised" in line for line in place.lines)


def test_offline_with_nothing_on_a_small_disk_both_are_told(
    place: Place, disk: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    point_at("http://127.0.0.1:9", monkeypatch)
    disk.free = 5_000 * MB
    told = place.refused()
    assert told.startswith("The Hub cannot be reached and the cache is not complete: 0 of 5 files")
    assert f"All files take 17.0 GB, and 5.00 GB are free in {place.home}: set HF_HOME" in told


def test_a_disk_that_gets_full_is_told_and_gone_on_with(place: Place) -> None:
    """`/dev/full` says what a full disk says."""
    place.repository.joinpath("blobs").mkdir(parents=True)
    place.partial(WEIGHTS_FILE).symlink_to("/dev/full")
    told = place.refused()
    assert re.match(
        rf"The disk is full: [\d.]+ [GT]B are free in {re.escape(str(place.home))}. Make room there, or set HF_HOME",
        told,
    )
    assert told.endswith("the next start goes on where this one stopped.") and place.pin is None
    place.partial(WEIGHTS_FILE).unlink()
    place.hub.asked.clear()
    place.fetch()
    assert [name for name, _ in place.hub.fetched] == [WEIGHTS_FILE]


def test_a_cache_that_may_not_be_written_is_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise PermissionError(13, os.strerror(13), str(place.home / "blobs"))

    monkeypatch.setattr(hub_download, "hf_hub_download", refuse)
    told = place.refused()
    assert told.startswith(f"{place.home} cannot be written: ") and told.endswith("Set HF_HOME to a folder that can.")


def test_a_file_of_another_length_than_was_said_is_told(place: Place) -> None:
    place.hub.sizes = {WEIGHTS_FILE: LARGE_BYTES + 5}
    assert place.refused().startswith("The Hub sent a file of another length than it had said.")


def test_all_files_are_fetched_once(place: Place) -> None:
    place.fetch()
    assert sorted(place.hub.fetched) == sorted((name, 0) for name in FILES)
