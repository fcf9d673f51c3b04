"""Fetching the released checkpoint from a Hub on this machine: pinned, resumed offline, and every refusal in words."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.hub import FIRST_COMMIT, GATED, SECOND_COMMIT, FakeHub, released_files, serving

from personaplex_app.errors import InvalidInput
from personaplex_app.model.hub import FILES, LICENCE_PAGE, PIN_FILE, TOKEN_PAGE, fetch_checkpoint

ROOT = Path(__file__).parents[2]
FETCH = """
import json, sys
from pathlib import Path
from personaplex_app.errors import InvalidInput
from personaplex_app.model.hub import fetch_checkpoint
token, revision, cache = sys.argv[1], sys.argv[2] or None, Path(sys.argv[3])
lines = []
try:
    folder = fetch_checkpoint(token, revision, cache, lines.append)
    print(json.dumps({"folder": str(folder), "lines": lines}))
except InvalidInput as error:
    print(json.dumps({"sentence": error.sentence, "lines": lines}))
"""
BUILD = """
import sys
from pathlib import Path
from personaplex_app.assemble import build_stepper
from personaplex_app.settings import EngineChoice
cache = Path(sys.argv[1])
stepper = build_stepper(EngineChoice("hub", cache, device="cpu", precision="float32", token="hf_good"))
from personaplex_app.controls import Choices, SamplingSettings
stepper.prime(0, stepper.open(Choices("Hello.", "TINY0", SamplingSettings(), 1)))
import numpy as np
step = stepper.step({0: np.zeros(1920, dtype=np.float32)})[0]
print(stepper.voice_names, step.healthy)
"""


@dataclass
class Place:
    """A machine with its own Hub cache and its own pin."""

    hub: FakeHub
    home: Path
    cache: Path

    def environment(self, offline: bool) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
        own = {"HF_ENDPOINT": self.hub.url, "HF_HOME": str(self.home), "HF_HUB_OFFLINE": str(int(offline))}
        return {**kept, **own, "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}

    def run(self, script: str, *arguments: str, offline: bool = False) -> str:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", script, *arguments],
            cwd=ROOT,
            env=self.environment(offline),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip().splitlines()[-1]

    def fetch(self, token: str = "hf_good", revision: str = "", offline: bool = False) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.run(FETCH, token, revision, str(self.cache), offline=offline))
        return answer

    @property
    def pin(self) -> str:
        return (self.cache / PIN_FILE).read_text(encoding="utf-8").strip()


@pytest.fixture(scope="module")
def files(mini_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return released_files(mini_directory, tmp_path_factory.mktemp("released"))


@pytest.fixture
def place(files: dict[str, bytes], tmp_path: Path) -> Iterator[Place]:
    with serving(FakeHub(dict(files))) as hub:
        yield Place(hub, tmp_path / "hf", tmp_path / "cache")


def test_the_first_start_fetches_five_files_and_pins_their_commit(place: Place) -> None:
    answer = place.fetch()
    folder = Path(answer["folder"])
    assert {path.name for path in folder.iterdir()} == set(FILES) and folder.name == FIRST_COMMIT == place.pin
    assert all((folder / name).read_bytes() == content for name, content in place.hub.files.items())
    assert len(answer["lines"]) == 5 and answer["lines"][0].startswith("Fetching config.json (1 of 5) from nvidia/")
    assert {authorization for _, _, authorization in place.hub.asked} == {"Bearer hf_good"}


def test_later_starts_ask_for_exactly_that_commit(place: Place) -> None:
    place.fetch()
    place.hub.names = {"main": SECOND_COMMIT, "old": FIRST_COMMIT}
    place.hub.asked.clear()
    shutil.rmtree(place.home)
    assert Path(place.fetch()["folder"]).name == FIRST_COMMIT == place.pin
    assert len(place.hub.paths) >= 5
    assert all(f"/resolve/{FIRST_COMMIT}/" in path for path in place.hub.paths), "main is not asked for again"


def test_a_revision_that_is_named_wins_over_the_pin(place: Place) -> None:
    place.fetch()
    place.hub.names["v2"] = SECOND_COMMIT
    assert Path(place.fetch(revision="v2")["folder"]).name == SECOND_COMMIT == place.pin, "a pin is a commit"


@pytest.mark.parametrize("network", ["offline mode", "Hub gone"])
def test_a_complete_cache_needs_no_connection(place: Place, network: str) -> None:
    first = place.fetch()
    place.hub.asked.clear()
    if network == "Hub gone":
        place.hub.url = "http://127.0.0.1:9"
    assert place.fetch(offline=network == "offline mode")["folder"] == first["folder"]
    assert place.hub.asked == []


@pytest.mark.parametrize("missing", ["one file", "everything"])
def test_an_incomplete_cache_offline_says_what_to_do(place: Place, missing: str) -> None:
    if missing == "one file":
        (Path(place.fetch()["folder"]) / FILES[-1]).unlink()
    sentence = place.fetch(offline=True)["sentence"]
    assert sentence.startswith("The Hub cannot be reached and the cache is not complete. Start once with a connection")


def test_an_interrupted_download_goes_on_where_it_stopped(place: Place, files: dict[str, bytes]) -> None:
    del place.hub.files[FILES[-1]]
    assert "lacks a file that is needed" in place.fetch()["sentence"]
    assert not (place.cache / PIN_FILE).exists(), "what is not whole is not pinned"
    place.hub.files[FILES[-1]] = files[FILES[-1]]
    place.hub.asked.clear()
    assert Path(place.fetch()["folder"]).name == FIRST_COMMIT
    assert [path.rpartition("/")[2] for method, path, _ in place.hub.asked if method == "GET"][1:] == [FILES[-1]]


INVALID = (401, {"X-Error-Message": "Invalid credentials in Authorization header"})
REFUSALS = {
    "401": ({"api": INVALID, "files": INVALID}, "The Hugging Face token is not valid (401).", TOKEN_PAGE),
    "401 without a word": ({"api": (401, {}), "files": (401, {})}, "token is not valid (401).", TOKEN_PAGE),
    "403, gated": ({"files": GATED}, "This token may not read the weights yet (403)", LICENCE_PAGE),
    "403, fine-grained": ({"files": (403, {})}, "This token may not read the weights yet (403)", LICENCE_PAGE),
    "403, api": ({"api": (403, {})}, "This token may not read the weights yet (403)", LICENCE_PAGE),
    "404": ({"api": (404, {"X-Error-Code": "RepoNotFound"})}, "The Hub does not show nvidia/", TOKEN_PAGE),
    "500": ({"api": (500, {})}, "The Hub did not give the files: ", "500"),
    "451": ({"files": (451, {})}, "The Hub did not give the files: ", "451"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_every_refusal_has_its_sentence_and_its_link(place: Place, name: str) -> None:
    place.hub.refuse, sentence, link = REFUSALS[name]
    told = place.fetch()["sentence"]
    assert sentence in told and link in told
    assert "hf_good" not in told and "\n" not in told and len(told) < 400
    assert not (place.cache / PIN_FILE).exists()


def test_a_revision_that_does_not_exist(place: Place) -> None:
    assert place.fetch(revision="v9")["sentence"] == (
        "nvidia/personaplex-7b-v1 has no revision v9; unset PERSONAPLEX_REVISION or name one that exists."
    )


@pytest.mark.parametrize("token", [None, ""])
def test_without_a_token_nothing_is_asked(tmp_path: Path, token: str | None) -> None:
    with pytest.raises(InvalidInput) as refused:
        fetch_checkpoint(token, None, tmp_path)
    for part in (LICENCE_PAGE, TOKEN_PAGE, "HF_TOKEN=hf_..."):
        assert part in refused.value.sentence


def test_a_pin_that_cannot_be_written_stops_nothing(place: Place) -> None:
    place.cache.write_text("a file where the folder should be")
    assert Path(place.fetch()["folder"]).name == FIRST_COMMIT


def test_the_hub_s_files_make_a_stepper(place: Place) -> None:
    assert place.run(BUILD, str(place.cache)) == "['TINY0'] True"
    assert place.pin == FIRST_COMMIT
