"""`doctor` as a person calls it: here, without a GPU, without the web, offline, with tokens that the Hub refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import torch
from huggingface_hub import constants
from support.hub import FIRST_COMMIT, GATED, FakeHub, released_files, serving

from personaplex_app import doctor_command, doctor_hub, doctor_machine, layouts
from personaplex_app.cards import GIB, fresh_card
from personaplex_app.cli import main
from personaplex_app.doctor_checks import OK, WRONG, Gpu
from personaplex_app.model import hub_files
from personaplex_app.model.checkpoint import WEIGHTS_FILE
from personaplex_app.model.hub import FILES

ROOT = Path(__file__).parents[2]
SECRET = "hf_averysecretone"
WEB = ("gradio", "fastrtc", "fastapi", "aiortc", "uvicorn")
ARCHS = ("sm_80", "sm_86", "sm_90")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No token and no revision but what a test sets."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "PERSONAPLEX_REVISION"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> str:
    """A machine with a 4090, as far as the doctor looks."""
    seen = Gpu("2.9.1", "12.8", ARCHS, "570.1.1", "", "NVIDIA GeForce RTX 4090", (8, 9), 24 * GIB, 23 * GIB)
    monkeypatch.setattr(doctor_machine, "see_gpu", lambda: seen)
    monkeypatch.setattr(doctor_machine, "find_compiler", lambda variables: "/usr/bin/gcc")
    monkeypatch.setattr(doctor_machine, "find_header", lambda: "/usr/include/Python.h")
    monkeypatch.setattr("personaplex_app.sources.pick_device", lambda name: torch.device("cuda"))
    monkeypatch.setattr(layouts, "read_card", lambda device, limit: fresh_card("RTX 4090"))
    return "RTX 4090"


@pytest.fixture
def hub(mini_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A Hub on this machine, and a cache of its own."""
    with serving(FakeHub(released_files(mini_directory, tmp_path))) as running:
        template = running.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "ENDPOINT", running.url)
        monkeypatch.setattr("huggingface_hub.file_download.HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr(doctor_hub, "get_session", requests.Session)
        monkeypatch.setenv("HF_TOKEN", SECRET)
        yield running


def _doctor(capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and findings by name; nothing secret is in them."""
    code = main(["doctor", "--json", *flags])
    told = capsys.readouterr()
    assert SECRET not in told.out + told.err and told.err == ""
    said = json.loads(told.out)
    assert said["ok"] == (code == 0) == all(one["state"] != WRONG for one in said["findings"])
    assert all(bool(one["mend"]) == (one["state"] == WRONG) for one in said["findings"])
    return code, {one["name"]: one for one in said["findings"]}


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
def test_here_the_toy_talks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    told = capsys.readouterr().out
    assert "note  gpu          No NVIDIA GPU is to be seen" in told and "mend:" not in told
    assert told.endswith("\nA talk can be had here: scripts/start\n")
    assert "ok    checkpoint   demo opens" in told


def test_without_the_web_s_packages_it_works_and_says_so() -> None:
    script = (
        f"import sys\nfor name in {WEB}: sys.modules[name] = None\n"
        "from personaplex_app.cli import main\n"
        "sys.exit(main(['doctor', '--checkpoint', 'mini', '--device', 'cpu']))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and done.stderr == ""
    assert "wrong packages     Not installed: gradio, fastrtc, aiortc." in done.stdout
    assert done.stdout.count("mend:") == 1 and "One thing has to be mended first." in done.stdout


def test_without_torch_it_says_what_mends_that(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_machine, "see_gpu", lambda: Gpu(error="libcudart.so.12: cannot open"))
    code, found = _doctor(capsys)
    assert code == 1 and "libcudart" in found["torch"]["sentence"] and "checkpoint" not in found


def test_a_gpu_without_a_token_talks_as_a_toy(capsys: pytest.CaptureFixture[str], gpu: str) -> None:
    code, found = _doctor(capsys)
    assert code == 0 and "With HF_TOKEN and a GPU" in found["token"]["sentence"] and "plan" not in found


def test_the_real_model_is_planned_and_each_thing_wrong_is_mended(
    capsys: pytest.CaptureFixture[str], gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, found = _doctor(capsys, "--checkpoint", "random")
    assert code == 0 and found["plan"]["state"] == OK and "4 lines on RTX 4090" in found["plan"]["sentence"]
    monkeypatch.setattr(doctor_machine, "find_compiler", lambda variables: None)
    code, found = _doctor(capsys, "--checkpoint", "random", "--slots", "60")
    assert code == 1 and found["compiler"]["mend"] == "apt-get install -y gcc libc6-dev python3-dev"
    assert "GiB of GPU memory" in found["plan"]["sentence"] and found["plan"]["mend"].startswith("Start with --slots ")
    code, found = _doctor(capsys, "--checkpoint", "random", "--plain-engine")
    assert code == 0 and found["compiler"]["state"] == "note"


def test_an_offload_is_planned_too(
    capsys: pytest.CaptureFixture[str], gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layouts, "read_card", lambda device, limit: fresh_card("RTX 4060"))
    monkeypatch.setattr("personaplex_app.model.host_memory.available_bytes", lambda: 40 * GIB)
    code, found = _doctor(capsys, "--checkpoint", "random", "--cpu-offload")
    assert code == 0 and "of 32 layers would stream from host memory" in found["plan"]["sentence"]
    monkeypatch.setattr("personaplex_app.model.host_memory.available_bytes", lambda: 5 * GIB)
    code, found = _doctor(capsys, "--checkpoint", "random", "--cpu-offload")
    assert code == 1 and "of host memory" in found["plan"]["sentence"]


@pytest.mark.parametrize(
    ("refuse", "said", "mend"),
    [
        ({}, "HF_TOKEN opens nvidia/personaplex-7b-v1", ""),
        ({"files": (401, {})}, "not valid (401)", "Make a new one on https://huggingface.co/settings/tokens"),
        ({"files": GATED}, "may not read nvidia/personaplex-7b-v1 yet (403)", "Accept the licence on https://"),
        ({"files": (404, {"X-Error-Code": "RepoNotFound"})}, "does not show", "read gated repositories"),
        ({"files": (404, {"X-Error-Code": "RevisionNotFound"})}, "has no revision main", "Unset PERSONAPLEX_REVISION"),
        ({"files": (503, {})}, "has no answer about it now (503)", ""),
    ],
    ids=["good", "invalid", "licence", "hidden", "revision", "trouble"],
)
def test_what_the_hub_says_of_the_token(
    capsys: pytest.CaptureFixture[str], gpu: str, hub: FakeHub, refuse: dict[str, Any], said: str, mend: str
) -> None:
    hub.refuse = refuse
    code, found = _doctor(capsys, "--checkpoint", "hub")
    assert said in found["token"]["sentence"] and mend in found["token"]["mend"]
    assert (found["token"]["state"] == WRONG) == bool(mend)
    assert found["files"]["state"] == ("note" if not refuse else WRONG)
    assert code == (0 if not refuse else 1)
    assert len(hub.asked) == 1 and hub.asked[0].method == "HEAD", "one short question"


def test_no_token_offline_and_a_full_cache(
    capsys: pytest.CaptureFixture[str], gpu: str, hub: FakeHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    code, found = _doctor(capsys, "--checkpoint", "hub")
    assert code == 1 and "HF_HUB_OFFLINE forbids asking" in found["token"]["sentence"]
    assert "0 of 5 files" in found["files"]["sentence"] and "HF_HUB_OFFLINE" in found["files"]["mend"]

    folder = hub_files._repository_folder()
    snapshot = folder / "snapshots" / FIRST_COMMIT
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(FIRST_COMMIT)
    for name in FILES:
        (snapshot / name).write_bytes(hub.files[name])
    code, found = _doctor(capsys, "--checkpoint", "hub")
    assert code == 0 and "All 5 files" in found["files"]["sentence"] and found["checkpoint"]["state"] == OK

    monkeypatch.delenv("HF_TOKEN")
    code, found = _doctor(capsys, "--checkpoint", "hub")
    assert code == 0 and "none is needed" in found["token"]["sentence"]

    (snapshot / WEIGHTS_FILE).write_bytes(hub.files[WEIGHTS_FILE][:5000])
    code, found = _doctor(capsys, "--checkpoint", "hub")
    assert code == 1 and "is not a whole safetensors file" in found["checkpoint"]["sentence"]
    assert found["checkpoint"]["mend"].startswith("Fetch or copy the files")
    assert hub.asked == []


def test_without_a_token_it_says_where_to_get_one(
    capsys: pytest.CaptureFixture[str], gpu: str, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    code, found = _doctor(capsys, "--checkpoint", "hub")
    assert code == 1 and "settings/tokens" in found["token"]["mend"] and hub.asked == []


def test_being_offline_is_said_and_no_error_by_itself(
    capsys: pytest.CaptureFixture[str], gpu: str, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unplugged(*_: object, **__: object) -> Any:
        raise requests.ConnectionError("no route")

    monkeypatch.setattr(requests.Session, "head", unplugged)
    code, found = _doctor(capsys, "--checkpoint", "hub")
    assert found["token"]["state"] == "note" and "offline, the Hub cannot be asked" in found["token"]["sentence"]
    assert code == 1 and found["files"]["state"] == WRONG


def test_a_directory_is_opened(capsys: pytest.CaptureFixture[str], mini_directory: Path, tmp_path: Path) -> None:
    code, found = _doctor(capsys, "--checkpoint", str(mini_directory), "--device", "cpu")
    assert code == 0 and found["checkpoint"]["state"] == OK
    code, found = _doctor(capsys, "--checkpoint", str(tmp_path / "nowhere"), "--device", "cpu")
    assert code == 1 and "make-checkpoint" in found["checkpoint"]["mend"]
    code, found = _doctor(capsys, "--checkpoint", "random", "--device", "cpu")
    assert code == 1 and "far from real time" in found["gpu"]["sentence"]


def test_flags_that_cannot_be_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--slots", "0"]) == 2
    assert capsys.readouterr().err == "error: --slots must be from 1 to 256, not 0.\n"
    assert doctor_command.WORKS in "What works here: --slots 1"
