"""`doctor` as a person calls it: here, without a GPU, without the web, offline, with tokens that the Hub refuses."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import torch
from huggingface_hub import constants
from support.hub import FIRST_COMMIT, GATED, FakeHub, point_at, released_files, serving

from personaplex_app import doctor_command, doctor_hub, doctor_machine, layouts
from personaplex_app.cards import GIB, fresh_card
from personaplex_app.cli import main
from personaplex_app.doctor_checks import OK, WRONG, Gpu
from personaplex_app.model import hub_files
from personaplex_app.model.checkpoint import CODEC_FILE, TOKENIZER_FILE, VOICES_ARCHIVE, WEIGHTS_FILE
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


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
@pytest.mark.parametrize(
    ("flags", "name", "said"),
    [
        (["--device", "cuda", "--checkpoint", "demo"], "gpu", "--device cuda asks for one"),
        (["--precision", "int8", "--checkpoint", "demo"], "plan", "--precision int8 needs a CUDA GPU"),
        (["--precision", "int4", "--checkpoint", "mini"], "plan", "--precision int4 needs a CUDA GPU"),
        (["--device", "cpu", "--cpu-offload", "--checkpoint", "mini"], "plan", "this runs on the CPU"),
        (["--gpu-memory-gb", "8", "--checkpoint", "demo"], "plan", "this runs on the CPU"),
    ],
)
def test_what_a_start_refuses_is_wrong(
    capsys: pytest.CaptureFixture[str], flags: list[str], name: str, said: str
) -> None:
    code, found = _doctor(capsys, *flags)
    assert code == 1 and found[name]["state"] == WRONG and said in found[name]["sentence"]
    assert [one["name"] for one in found.values() if one["state"] == WRONG] == [name]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (CODEC_FILE, 5000, "is not a whole safetensors file"),
        (CODEC_FILE, "model.safetensors", "is not the codec that this checkpoint describes: it lacks the tensor "),
        (TOKENIZER_FILE, b"x", "is no SentencePiece model"),
        (VOICES_ARCHIVE, b"hi", "voices.tgz cannot be read"),
    ],
    ids=["codec cut short", "another file as codec", "no tokenizer", "no archive"],
)
def test_every_file_of_a_directory_is_opened(
    capsys: pytest.CaptureFixture[str], mini_directory: Path, tmp_path: Path, name: str, content: Any, said: str
) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    for file in FILES:
        if file != VOICES_ARCHIVE:
            (folder / file).symlink_to(mini_directory / file)
    assert _doctor(capsys, "--checkpoint", str(folder), "--device", "cpu")[0] == 0
    if isinstance(content, int):
        content = (mini_directory / name).read_bytes()[:content]
    elif isinstance(content, str):
        content = (mini_directory / content).read_bytes()
    (folder / name).unlink(missing_ok=True)
    (folder / name).write_bytes(content)
    code, found = _doctor(capsys, "--checkpoint", str(folder), "--device", "cpu")
    assert code == 1 and said in found["checkpoint"]["sentence"] and "plan" not in found


@pytest.mark.parametrize("checkpoint", [[], ["--checkpoint", "hub"], ["--checkpoint", "mini"]], ids=str)
def test_a_token_that_is_none_is_wrong_and_not_shown(
    capsys: pytest.CaptureFixture[str],
    hub: FakeHub,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    checkpoint: list[str],
) -> None:
    monkeypatch.setenv("HF_TOKEN", f"{SECRET}\nmore")
    code, found = _doctor(capsys, *checkpoint)
    form = found["token"]
    assert code == 1 and form["sentence"].startswith("HF_TOKEN holds no token") and "Copy it anew" in form["mend"]
    assert hub.asked == []
    sound = str(ROOT / "tests" / "fixtures" / "custom_voice.wav")
    assert main(["render", "--checkpoint", "hub", sound, str(tmp_path / "out.wav")]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: HF_TOKEN holds no token") and SECRET not in told


def test_an_address_that_is_none_is_wrong(
    capsys: pytest.CaptureFixture[str], gpu: str, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    point_at("foo://anna:pass@bar", monkeypatch)
    code, found = _doctor(capsys, "--checkpoint", "hub")
    assert code == 1 and found["token"]["sentence"].startswith("HF_ENDPOINT is foo://bar, which does not lead")


@pytest.fixture
def locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder into which this user may not look; root may, so the system is told to say so."""
    folder, real, allowed = tmp_path / "locked", os.stat, os.access
    folder.mkdir()

    def stat(path: Any, *rest: Any, **named: Any) -> os.stat_result:
        if isinstance(path, (str, Path)) and str(path).startswith(f"{folder}/"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path, *rest, **named)

    monkeypatch.setattr(os, "stat", stat)
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != str(folder) and allowed(path, mode))
    return folder


def test_places_without_rights_are_told(
    capsys: pytest.CaptureFixture[str], gpu: str, hub: FakeHub, monkeypatch: pytest.MonkeyPatch, locked: Path
) -> None:
    monkeypatch.setenv("PERSONAPLEX_CACHE", str(locked / "own"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(locked / "hub"))
    code, found = _doctor(capsys, "--checkpoint", "hub")
    assert code == 1 and "disk" in found
    for name, variable in (("cache", "PERSONAPLEX_CACHE"), ("hub cache", "HF_HOME")):
        assert found[name]["state"] == WRONG and found[name]["mend"].startswith(f"Set {variable} to ")
    code, found = _doctor(capsys, "--checkpoint", str(locked / "model"))
    assert code == 1 and "cannot be read: Permission denied" in found["checkpoint"]["sentence"]


def test_a_user_without_a_home_is_told_what_to_set(
    capsys: pytest.CaptureFixture[str], gpu: str, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", "~/.cache/huggingface/hub")
    code, found = _doctor(capsys, "--checkpoint", "hub")
    assert code == 1 and found["hub cache"]["mend"] == "Set HF_HOME to a folder that can be written."
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    monkeypatch.delenv("PERSONAPLEX_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert main(["doctor"]) == 2 and "set PERSONAPLEX_CACHE" in capsys.readouterr().err


def test_what_lies_here_is_not_wanted_of_the_disk_again(
    capsys: pytest.CaptureFixture[str], gpu: str, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("personaplex_app.model.disk.free_bytes", lambda folder: 6 * 10**9)
    code, found = _doctor(capsys, "--checkpoint", "hub")
    assert code == 1 and "still to be fetched take 17 GB" in found["disk"]["sentence"]
    hub_files.blobs_folder().mkdir(parents=True)
    with (hub_files.blobs_folder() / "weights.incomplete").open("wb") as file:
        file.truncate(12 * 10**9)
    code, found = _doctor(capsys, "--checkpoint", "hub")
    assert code == 0 and found["disk"]["sentence"].endswith("GB are advised.") and found["disk"]["state"] == "note"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            ["--checkpoint", "random", "--slots", "2", "--precision", "bfloat16", "--kv-cache", "model"],
            "A talk can be had here: scripts/start --checkpoint random --precision bfloat16 --kv-cache model --slots 2",
        ),
        (
            ["--checkpoint", "random", "--gpu-memory-gb", "22.5", "--plain-engine"],
            "A talk can be had here: scripts/start --checkpoint random --gpu-memory-gb 22.5 --plain-engine",
        ),
        (
            ["--checkpoint", "random", "--cpu-offload"],
            "Offline render works here; whether a talk keeps up with time only the start can measure: scripts/start "
            "--checkpoint random --cpu-offload",
        ),
    ],
)
def test_the_verdict_repeats_the_flags(
    capsys: pytest.CaptureFixture[str], gpu: str, monkeypatch: pytest.MonkeyPatch, flags: list[str], said: str
) -> None:
    monkeypatch.setattr("personaplex_app.model.host_memory.available_bytes", lambda: 40 * GIB)
    assert main(["doctor", *flags]) == 0
    assert capsys.readouterr().out.endswith(f"\n{said}\n")


def test_flags_that_cannot_be_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--slots", "0"]) == 2
    assert capsys.readouterr().err == "error: --slots must be from 1 to 256, not 0.\n"
    assert doctor_command.WORKS in "What works here: --slots 1"
