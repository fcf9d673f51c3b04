"""`make-checkpoint`: the same bytes by seed, a directory that renders, and refusals that leave nothing behind."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from personaplex_app.cli import main
from personaplex_app.errors import InvalidInput
from personaplex_app.model import stand_in as room
from personaplex_app.model.checkpoint import WEIGHTS_FILE
from personaplex_app.model.stand_in import FILES, UNFINISHED, full_stand_in, make_checkpoint, mini_stand_in

SMALLEST = [slot for slot in room.language_slots(mini_stand_in().config.language) if "alpha" in slot.name][:2]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint of two small tensors, no voices and no tokenizer: for whatever ends before anybody opens it."""
    monkeypatch.setattr(room, "language_slots", lambda config: SMALLEST)
    monkeypatch.setattr(room, "tokenizer_bytes", lambda cache: b"")
    monkeypatch.setattr(room, "write_voices", lambda path, *_: path.write_bytes(b""))


def _make(directory: Path, report: Callable[[str], None] = lambda line: None, seed: int = 0) -> int:
    return make_checkpoint(directory, mini_stand_in(), seed, directory.parent / "cache", report)


def _bytes(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_the_command_makes_a_directory_that_renders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, sound, out = tmp_path / "deep" / "made", tmp_path / "in.wav", tmp_path / "out.wav"
    assert main(["make-checkpoint", str(made), "--size", "mini", "--seed", "11"]) == 0
    told = capsys.readouterr()
    assert told.out.startswith(f"{made}: 12.2 MB of random weights, seed 11, made in ")
    assert told.out.endswith(f"says nothing of quality. Use it with --checkpoint {made}\n")
    assert f"Writing {WEIGHTS_FILE}, 9.56 MB\n" in told.err
    soundfile.write(sound, np.zeros(24_000, dtype=np.float32), 24_000)
    arguments = ["render", str(sound), str(out), "--checkpoint", str(made), "--voice", "VARM3", "--prompt", "Hello."]
    assert main(arguments) == 0
    assert soundfile.info(out).frames == 24_000 and "voice VARM3" in capsys.readouterr().err


def test_a_seed_gives_the_same_bytes_again(tmp_path: Path, cache_outside_home: Path) -> None:
    for name, seed in (("first", 3), ("again", 3), ("other", 4)):
        make_checkpoint(tmp_path / name, mini_stand_in(), seed, cache_outside_home, lambda line: None)
    first, again, other = (_bytes(tmp_path / name) for name in ("first", "again", "other"))
    assert first == again
    assert {name for name in FILES if first[name] == other[name]} == {"config.json", "tokenizer_spm_32k_3.model"}


@pytest.mark.usefixtures("quick")
def test_an_empty_directory_is_taken_and_one_that_holds_something_is_not(tmp_path: Path) -> None:
    _make(tmp_path / "made")
    before = _bytes(tmp_path / "made")
    with pytest.raises(InvalidInput, match=r"made holds something already \(config.json\); name a new directory"):
        _make(tmp_path / "made")
    assert _bytes(tmp_path / "made") == before
    (tmp_path / "empty").mkdir()
    assert _make(tmp_path / "empty") == sum(map(len, before.values()))


def test_a_file_in_the_way_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InvalidInput, match="file is a file; name a new directory"):
        _make(tmp_path / "file")
    with pytest.raises(InvalidInput, match="below cannot be written: Not a directory"):
        _make(tmp_path / "file" / "below")


def test_the_rest_of_a_killed_one_is_told_with_the_command_that_removes_it(tmp_path: Path) -> None:
    (tmp_path / "made" / UNFINISHED).mkdir(parents=True)
    with pytest.raises(InvalidInput, match=f"rest of an interrupted make-checkpoint.*: rm -r {tmp_path}/made"):
        _make(tmp_path / "made")


def test_a_disk_too_small_is_told_with_numbers_before_the_first_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "free_bytes", lambda path: 3_100_000_000)
    with pytest.raises(InvalidInput) as refused:
        make_checkpoint(tmp_path / "a" / "b", full_stand_in(), 0, tmp_path, lambda line: None)
    assert refused.value.sentence == (
        f"The checkpoint takes 17.1 GB; where {tmp_path}/a/b lies, 3.10 GB are free. Free 14.0 GB or name a directory "
        "on a larger disk, or take --size mini."
    )
    monkeypatch.setattr(room, "free_bytes", lambda path: 3_100_000)
    with pytest.raises(InvalidInput, match=r"takes 13.5 MB.*larger disk\.$"):
        _make(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []


def _raising(error: BaseException) -> Callable[[str], None]:
    def report(line: str) -> None:
        if WEIGHTS_FILE in line:
            raise error

    return report


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("existing", [True, False])
def test_an_interruption_leaves_nothing(tmp_path: Path, existing: bool) -> None:
    if existing:
        (tmp_path / "a").mkdir()
    with pytest.raises(KeyboardInterrupt):
        _make(tmp_path / "a" / "b", _raising(KeyboardInterrupt()))
    assert list(tmp_path.rglob("*")) == ([tmp_path / "a"] if existing else [])


@pytest.mark.usefixtures("quick")
def test_an_interruption_while_the_files_get_their_names_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.replace

    def interrupted(self: Path, target: Path) -> Path:
        if self.name == WEIGHTS_FILE:
            raise KeyboardInterrupt
        return rename(self, target)

    (tmp_path / "made").mkdir()
    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _make(tmp_path / "made")
    assert list((tmp_path / "made").iterdir()) == []


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (errno.ENOSPC, "is full; what was written there is deleted again"),
        (errno.EDQUOT, "is full; what was written there is deleted again"),
        (errno.EIO, "made cannot be written: Input/output error"),
        (errno.EROFS, "made cannot be written: Read-only file system"),
    ],
)
def test_a_disk_that_fails_is_told_and_nothing_is_left(tmp_path: Path, number: int, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        _make(tmp_path / "made", _raising(OSError(number, os.strerror(number))))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_cleans_up_as_ctrl_c_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    before = signal.signal(number, signal.default_int_handler)  # were it not caught, this would be seen
    monkeypatch.setattr(room, "write_voices", lambda *_: signal.raise_signal(number))
    try:
        with pytest.raises(SystemExit) as ended:
            main(["make-checkpoint", str(tmp_path / "made"), "--size", "mini"])
        assert ended.value.code == 128 + number and list(tmp_path.iterdir()) == []
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)


@pytest.mark.usefixtures("quick")
def test_a_closed_terminal_that_nohup_hides_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    monkeypatch.setattr(room, "write_voices", lambda path, *_: (path.touch(), signal.raise_signal(signal.SIGHUP)))
    try:
        assert main(["make-checkpoint", str(tmp_path / "made"), "--size", "mini"]) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("quick")
def test_another_that_writes_there_is_told(tmp_path: Path) -> None:
    told: list[str] = []

    def report(line: str) -> None:
        with pytest.raises(InvalidInput) as refused:
            _make(tmp_path / "made")
        told.append(refused.value.sentence)

    _make(tmp_path / "made", report)
    assert set(told) == {
        f"Another make-checkpoint is writing in {tmp_path}/made now; wait until it is done, or name a new directory."
    }
    assert {path.name for path in (tmp_path / "made").iterdir()} == set(FILES)


@pytest.mark.usefixtures("quick")
def test_two_that_begin_at_once_do_not_undo_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_check_empty", lambda directory: None)
    (tmp_path / "made" / UNFINISHED).mkdir(parents=True)
    with pytest.raises(InvalidInput, match="Another make-checkpoint is writing in"):
        _make(tmp_path / "made")
    assert (tmp_path / "made" / UNFINISHED).is_dir()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("name", "said"),
    [("demo", "./demo"), ("mini", "./mini"), ("hub", "./hub"), ("./random", "./random"), ("my dir", "'my dir'")],
)
def test_the_hint_can_be_pasted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["make-checkpoint", name, "--size", "mini"]) == 0
    assert capsys.readouterr().out.endswith(f" Use it with --checkpoint {said}\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["DIR", "--size", "huge"], "argument --size: invalid choice: 'huge'"),
        (["DIR", "--seed", "abc"], "The seed must be a whole number"),
        (["DIR", "--seed", "-7"], "The seed must be from 0"),
        ([], "the following arguments are required: DIR"),
    ],
)
def test_flags_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, arguments: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        code = main(["make-checkpoint", *arguments])
    except SystemExit as ended:
        code = ended.code  # type: ignore[assignment]
    assert code == 2 and sentence in capsys.readouterr().err and list(tmp_path.iterdir()) == []
