"""What the doctor makes of what it sees: ok, a note, or wrong with exactly one line that mends it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from personaplex_app import doctor_checks as checks
from personaplex_app import doctor_machine as machine
from personaplex_app.cards import GIB
from personaplex_app.doctor_checks import NOTE, OK, WRONG, Finding, Gpu
from personaplex_app.doctor_command import line_of, verdict

ARCHS = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")
GOOD = Gpu("2.9.1+cu128", "12.8", ARCHS, "570.86.15", "", "NVIDIA L4", (8, 9), 22 * GIB, 21 * GIB)


def _changed(**changes: Any) -> Gpu:
    return Gpu(**{**vars(GOOD), **changes})


def _states(found: list[Finding]) -> dict[str, str]:
    for finding in found:
        assert finding.sentence and "\n" not in finding.sentence
        assert bool(finding.mend) == (finding.state == WRONG) and "\n" not in finding.mend
    return {finding.name: finding.state for finding in found}


def _wrong(found: list[Finding]) -> Finding:
    (wrong,) = (finding for finding in found if finding.state == WRONG)
    assert wrong.mend and "\n" not in wrong.mend
    return wrong


def test_a_good_gpu_is_named_with_driver_build_and_memory() -> None:
    found = checks.gpu(GOOD, needed=True)
    assert _states(found) == {"gpu": OK, "torch": OK, "gpu memory": OK}
    assert "NVIDIA L4, compute capability 8.9, driver 570.86.15" in found[0].sentence
    assert "torch 2.9.1+cu128, built for CUDA 12.8, runs on sm_89" in found[1].sentence
    assert "21.0 of 22.0 GiB are free" in found[2].sentence


@pytest.mark.parametrize(
    ("capability", "archs", "runs"),
    [
        ((8, 9), ("sm_86",), True),
        ((8, 0), ("sm_86",), False),
        ((12, 0), ("sm_80", "sm_90"), False),
        ((12, 0), ("sm_80", "compute_90"), True),
        ((12, 0), ("sm_120",), True),
        ((9, 0), ("sm_90a",), True),
        ((9, 1), ("sm_90a",), False),
        ((10, 3), ("sm_100",), True),
        ((6, 1), ("sm_75", "sm_80"), False),
        ((8, 6), (), False),
    ],
)
def test_which_kernels_run_on_which_card(capability: tuple[int, int], archs: tuple[str, ...], runs: bool) -> None:
    found = checks.gpu(_changed(capability=capability, archs=archs), needed=True)
    assert _states(found)["torch"] == (OK if runs else WRONG)
    if not runs:
        wrong = _wrong(found)
        assert f"this GPU is sm_{capability[0]}{capability[1]}" in wrong.sentence
        assert ("newer GPU" in wrong.mend) == (capability == (6, 1) or capability == (8, 0))


def test_a_gpu_that_others_use_is_noted() -> None:
    found = checks.gpu(_changed(free_bytes=10 * GIB), needed=True)
    assert _states(found)["gpu memory"] == NOTE and "hold 12.0 GiB (nvidia-smi" in found[2].sentence


def test_a_driver_too_old_for_torch_is_named_with_the_one_needed() -> None:
    seen = Gpu("2.9.1", "12.8", (), "470.1.2", "The NVIDIA driver on your system is too old (found version 11040)")
    wrong = _wrong(checks.gpu(seen, needed=False))
    assert "470.1.2" in wrong.sentence and "too old" in wrong.sentence and "driver 525 or newer" in wrong.mend


def test_a_driver_that_shows_no_gpu_is_looked_into() -> None:
    seen = Gpu("2.9.1", "12.8", (), "570.1.1", "No CUDA GPUs are available")
    wrong = _wrong(checks.gpu(seen, needed=False))
    assert "No CUDA GPUs are available" in wrong.sentence and "--gpus all" in wrong.mend


def test_a_torch_without_cuda_beside_a_driver_is_wrong() -> None:
    wrong = _wrong(checks.gpu(Gpu("2.9.1+cpu", None, (), "570.1.1"), needed=False))
    assert "built for the CPU only" in wrong.sentence and wrong.mend == checks.INSTALL


def test_no_gpu_is_wrong_only_where_one_is_needed() -> None:
    assert _states(checks.gpu(Gpu("2.9.1", "12.8"), needed=False)) == {"torch": OK, "gpu": NOTE}
    wrong = _wrong(checks.gpu(Gpu("2.9.1", "12.8"), needed=True))
    assert "cannot talk on a CPU" in wrong.sentence and "--checkpoint demo" in wrong.mend


def test_a_torch_that_cannot_be_imported_is_told_with_its_error() -> None:
    wrong = _wrong(checks.gpu(Gpu(error="libcudart.so.12: cannot open shared object file"), needed=False))
    assert "libcudart" in wrong.sentence and wrong.mend == checks.INSTALL


@pytest.mark.parametrize(
    ("finding", "state", "said"),
    [
        (checks.python((3, 11)), OK, "Python 3.11"),
        (checks.python((3, 13)), WRONG, "3.11 or 3.12 is needed"),
        (checks.packages([]), OK, "installed"),
        (checks.packages(["gradio", "fastrtc"]), WRONG, "Not installed: gradio, fastrtc."),
        (checks.compiler("/usr/bin/gcc", "/usr/include/Python.h", True), OK, "/usr/bin/gcc"),
        (checks.compiler(None, "/usr/include/Python.h", True), WRONG, "need a C compiler."),
        (checks.compiler("/usr/bin/gcc", None, True), WRONG, "need Python's headers."),
        (checks.compiler(None, None, True), WRONG, "a C compiler and Python's headers"),
        (checks.compiler(None, None, False), NOTE, "Nothing is compiled here"),
        (checks.host_memory(None), NOTE, "does not tell"),
        (checks.host_memory(3 * GIB), WRONG, "3.0 GiB are available"),
        (checks.host_memory(30 * GIB), OK, "30.0 GiB"),
        (checks.disk("/c", 9 * 10**9, 17 * 10**9, 50 * 10**9, "HF_HOME"), WRONG, "still to be fetched take 17 GB"),
        (checks.disk("/c", 20 * 10**9, 17 * 10**9, 50 * 10**9, "HF_HOME"), NOTE, "50 GB are advised"),
        (checks.disk("/c", 9 * 10**9, 0, 0, "HF_HOME"), OK, "9 GB are free at /c"),
        (checks.cache("/c", True, "PERSONAPLEX_CACHE"), OK, "/c can be written"),
        (checks.cache("/c", False, "PERSONAPLEX_CACHE"), WRONG, "/c cannot be written"),
    ],
)
def test_each_thing_is_judged(finding: Finding, state: str, said: str) -> None:
    assert _states([finding]) == {finding.name: state} and said in finding.sentence


def test_what_is_wrong_takes_two_lines_and_all_else_one() -> None:
    lines = line_of(checks.packages(["gradio"])).splitlines()
    assert lines[0].startswith("wrong packages     Not installed") and lines[1].strip() == f"mend: {checks.INSTALL}"
    assert "\n" not in line_of(checks.packages([])) and "\n" not in line_of(checks.host_memory(None))
    assert verdict(0, ["--checkpoint", "a dir"]) == "A talk can be had here: scripts/start --checkpoint 'a dir'"
    assert verdict(0, ["--cpu-offload"], live=False).startswith("Offline render works here; ")
    assert verdict(1).startswith("One thing")
    assert verdict(3).startswith("3 things")


def test_the_driver_s_version_is_read_where_there_is_a_driver(tmp_path: Path) -> None:
    file = tmp_path / "version"
    assert machine.driver_version(file) is None
    file.write_text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\nGCC 12.2.0\n")
    assert machine.driver_version(file) == "570.86.15"
    file.write_text("nothing of the kind\n")
    assert machine.driver_version(file) == "of unknown version"


class FakeTorch:
    """As much of torch as is looked at."""

    __version__ = "2.9.1+cu128"

    def __init__(self, there: bool, error: str = "") -> None:
        self.version = SimpleNamespace(cuda="12.8")
        self._there, self._error = there, error
        self.cuda = self

    def is_available(self) -> bool:
        return self._there

    def init(self) -> None:
        raise RuntimeError(self._error)

    def get_device_properties(self, index: int) -> Any:
        if self._error:
            raise RuntimeError(self._error)
        return SimpleNamespace(name="NVIDIA L4", major=8, minor=9)

    def mem_get_info(self, index: int) -> tuple[int, int]:
        return 21 * GIB, 22 * GIB

    def get_arch_list(self) -> list[str]:
        return list(ARCHS)


def test_what_torch_says_is_taken_down() -> None:
    assert machine.see_torch(FakeTorch(True), "570.86.15") == GOOD
    old = machine.see_torch(
        FakeTorch(False, "The NVIDIA driver is too old (found version 11040). Please update"), "470.1"
    )
    assert old.name is None and old.error == "The NVIDIA driver is too old (found version 11040)"
    broken = machine.see_torch(FakeTorch(True, "CUDA error: unknown error\nmore"), "570.1.1")
    assert broken.name is None and broken.error == "CUDA error: unknown error more"


def test_the_compiler_is_looked_for_as_triton_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.find_compiler({}) is None
    for name in ("clang", "gcc", "mine"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
        assert machine.find_compiler({"CC": "mine"}) == str(tmp_path / name)
    assert machine.find_compiler({}) == str(tmp_path / "gcc")


def test_a_folder_to_be_made_is_writable_where_its_parent_is(tmp_path: Path) -> None:
    assert machine.is_writable(tmp_path / "a" / "b")
    (tmp_path / "file").write_text("")
    assert not machine.is_writable(tmp_path / "file" / "under")


def test_packages_that_are_blocked_count_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setattr(machine, "PACKAGES", ("torch", "gradio", "no_such_package_at_all"))
    monkeypatch.setitem(sys.modules, "gradio", None)
    assert machine.missing_packages() == ["gradio", "no_such_package_at_all"]
