"""Fetching the released checkpoint from a Hub on this machine: pinned, complete offline, and every refusal in words."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from huggingface_hub import constants
from huggingface_hub.utils import reset_sessions
from support.hub import FIRST_COMMIT, GATED, SECOND_COMMIT, FakeHub, Place, point_at, released_files, serving
from support.hub_place import invented_files, place

from personaplex_app.assemble import build_stepper
from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.errors import InvalidInput
from personaplex_app.model import hub
from personaplex_app.model.checkpoint import WEIGHTS_FILE
from personaplex_app.model.hub import FILES, LICENCE_PAGE, PIN_FILE, TOKEN_PAGE
from personaplex_app.settings import EngineChoice

__all__ = ["place"]

ROOT = Path(__file__).parents[2]
NOBODY = "http://127.0.0.1:9"
FETCH = """
import sys
from pathlib import Path
from personaplex_app.model.hub import fetch_checkpoint
print(fetch_checkpoint(sys.argv[2] or None, None, Path(sys.argv[1])).name)
"""


def go_offline(place: Place, how: str, patch: pytest.MonkeyPatch) -> None:
    """Nobody answers any more, or nobody may be asked."""
    if how == "Hub gone":
        point_at(NOBODY, patch)
    else:
        patch.setattr(constants, "HF_HUB_OFFLINE", True)
        reset_sessions()
    place.hub.asked.clear()


def test_the_first_start_fetches_five_files_and_pins_their_commit(place: Place) -> None:
    folder = place.fetch()
    assert {path.name for path in folder.iterdir()} == set(FILES) and folder.name == FIRST_COMMIT == place.pin
    assert all((folder / name).read_bytes() == content for name, content in place.hub.files.items())
    assert place.lines[0].startswith("Fetching 5 files from nvidia/personaplex-7b-v1: 3.01 MB in all")
    begun = [line for line in place.lines if " of 5) from nvidia/personaplex-7b-v1 ..." in line]
    assert begun[0] == "Fetching config.json (1 of 5) from nvidia/personaplex-7b-v1 ..." and len(begun) == 5
    assert {asked.authorization for asked in place.hub.asked} == {"Bearer hf_good"}


def test_later_starts_ask_nobody(place: Place) -> None:
    first = place.fetch()
    place.hub.names = {"main": SECOND_COMMIT}
    place.hub.asked.clear()
    assert place.fetch() == place.fetch(token=None) == first
    assert (place.hub.asked, place.lines) == ([], [])


def test_a_cache_that_was_deleted_is_filled_with_exactly_that_commit(place: Place) -> None:
    place.fetch()
    place.hub.names = {"main": SECOND_COMMIT, "old": FIRST_COMMIT}
    place.hub.asked.clear()
    shutil.rmtree(place.home)
    assert place.fetch().name == FIRST_COMMIT == place.pin
    assert len(place.hub.paths) >= 10
    assert all(FIRST_COMMIT in path for path in place.hub.paths), "main is not asked for again"


def test_a_revision_that_is_named_wins_over_the_pin(place: Place) -> None:
    place.fetch()
    place.hub.names["v2"] = SECOND_COMMIT
    assert place.fetch(revision="v2").name == SECOND_COMMIT == place.pin, "a pin is a commit"


def test_a_branch_that_is_named_is_asked_for_each_time(place: Place) -> None:
    place.hub.names["v2"] = FIRST_COMMIT
    assert place.fetch(revision="v2").name == FIRST_COMMIT
    place.hub.names["v2"] = SECOND_COMMIT
    assert place.fetch(revision="v2").name == SECOND_COMMIT


@pytest.mark.parametrize("how", ["offline mode", "Hub gone"])
@pytest.mark.parametrize("token", ["hf_good", None])
@pytest.mark.parametrize("revision", [None, "v2", FIRST_COMMIT])
def test_a_complete_cache_needs_no_connection(
    place: Place, monkeypatch: pytest.MonkeyPatch, how: str, token: str | None, revision: str | None
) -> None:
    place.hub.names["v2"] = FIRST_COMMIT
    first = place.fetch(revision=revision)
    go_offline(place, how, monkeypatch)
    assert place.fetch(token, revision) == first
    assert place.hub.asked == []


@pytest.mark.parametrize("how", ["offline mode", "Hub gone"])
@pytest.mark.parametrize("named", [True, False])
def test_a_cache_that_another_program_filled_will_do(
    place: Place, monkeypatch: pytest.MonkeyPatch, how: str, named: bool
) -> None:
    """`hf download` leaves no pin of ours; of a commit it leaves no branch either."""
    first = place.fetch()
    (place.cache / PIN_FILE).unlink()
    if named:
        (place.repository / "refs").mkdir(exist_ok=True)
        (place.repository / "refs" / "main").write_text(FIRST_COMMIT)
    go_offline(place, how, monkeypatch)
    assert place.fetch() == place.fetch(None) == first and place.pin == FIRST_COMMIT


def test_a_complete_cache_outlives_trouble_of_the_hub(place: Place) -> None:
    first = place.fetch()
    (place.cache / PIN_FILE).unlink()
    place.hub.refuse = {"api": (503, {})}
    assert place.fetch() == first and "The Hub cannot be reached; the files that are here are used" in place.lines


@pytest.mark.parametrize("how", ["offline mode", "Hub gone"])
@pytest.mark.parametrize("missing", ["one file", "everything"])
def test_an_incomplete_cache_offline_says_what_to_do(
    place: Place, monkeypatch: pytest.MonkeyPatch, how: str, missing: str
) -> None:
    if missing == "one file":
        (place.fetch() / WEIGHTS_FILE).unlink()
    go_offline(place, how, monkeypatch)
    sentence = place.refused()
    why, mend = {
        "offline mode": ("HF_HUB_OFFLINE is set", "without HF_HUB_OFFLINE"),
        "Hub gone": ("The Hub cannot be reached", f"with a connection (HF_ENDPOINT is {NOBODY})"),
    }[how]
    here = "4 of 5 files are in" if missing == "one file" else "0 of 5 files are in"
    assert sentence.startswith(f"{why} and the cache is not complete: {here} {place.home}, missing: ")
    assert WEIGHTS_FILE in sentence and f"Start once {mend}, then offline works." in sentence


def test_without_a_token_a_part_of_the_files_is_not_enough(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    (place.fetch() / WEIGHTS_FILE).unlink()
    place.hub.asked.clear()
    assert "HF_TOKEN=hf_..." in place.refused(None)
    go_offline(place, "offline mode", monkeypatch)
    assert place.refused(None).startswith("HF_HUB_OFFLINE is set and the cache is not complete: 4 of 5 files")
    assert place.hub.asked == []


@pytest.mark.parametrize(
    "token", ["hf_abcSECRETdef\nghiSECRET2", "oddSECRET one\ttwoSECRET", "hf_SECRETé☃", "SECRET\x00SECRET", "SECRET%2F"]
)
@pytest.mark.parametrize("how", ["the Hub", "nobody", "an error that quotes it"])
def test_no_sentence_holds_the_token(place: Place, monkeypatch: pytest.MonkeyPatch, token: str, how: str) -> None:
    if how == "the Hub":
        place.hub.refuse = {"api": (451, {})}
    if how == "nobody":
        point_at(NOBODY, monkeypatch)
    if how == "an error that quotes it":

        def quoting(*_: object) -> list[Any]:
            raise ValueError(f"{'x' * 225} {token} {token!r} {quote(token)} 'Bearer {token}'")

        monkeypatch.setattr(hub, "ask_hub", quoting)
    with pytest.raises(InvalidInput) as refused:
        place.fetch(token)
    assert "SECRET" not in refused.value.sentence and "\n" not in refused.value.sentence


def test_a_login_in_the_hub_s_address_is_not_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    point_at("http://anna:SECRET@127.0.0.1:9", monkeypatch)
    told = place.refused()
    assert "(HF_ENDPOINT is http://127.0.0.1:9)" in told and "anna" not in told
    place.hub.refuse = {"api": (451, {})}
    point_at(place.hub.url.replace("//", "//anna:SEC@RET@"), monkeypatch)
    told = place.refused()
    assert "451" in told and "anna" not in told and "RET" not in told


@pytest.mark.parametrize("address", ["foo", "foo://bar", "http://", "foo://anna:SECRET@bar"])
def test_an_address_that_is_none_is_named(place: Place, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    point_at(address, monkeypatch)
    told = place.refused()
    assert told.startswith("HF_ENDPOINT is ") and "unset it, or set it to an address such as https://" in told
    assert "SECRET" not in told


def test_a_user_without_a_home_is_told_what_to_set(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", "~/.cache/huggingface/hub")
    assert "no home folder: set HF_HOME" in place.refused() and place.hub.asked == []


INVALID = (401, {"X-Error-Message": "Invalid credentials in Authorization header"})
REFUSALS = {
    "401": ({"api": INVALID, "files": INVALID}, "The Hugging Face token is not valid (401).", TOKEN_PAGE),
    "401 without a word": ({"api": (401, {}), "files": (401, {})}, "token is not valid (401).", TOKEN_PAGE),
    "401 of a file": ({"files": (401, {"X-Error-Code": "GatedRepo"})}, "token is not valid (401).", TOKEN_PAGE),
    "403, gated": ({"files": GATED}, "This token may not read the weights yet (403)", LICENCE_PAGE),
    "403, fine-grained": ({"files": (403, {})}, "This token may not read the weights yet (403)", LICENCE_PAGE),
    "403, api": ({"api": (403, {})}, "This token may not read the weights yet (403)", LICENCE_PAGE),
    "404": ({"api": (404, {"X-Error-Code": "RepoNotFound"})}, "The Hub does not show nvidia/", TOKEN_PAGE),
    "404 of a file": ({"files": (404, {"X-Error-Code": "RepoNotFound"})}, "The Hub does not show nvidia/", TOKEN_PAGE),
    "429": ({"api": (429, {})}, "The Hub asks for patience (429", "in some minutes"),
    "500": ({"api": (500, {})}, "The Hub has trouble (500)", "https://status.huggingface.co"),
    "504": ({"api": (504, {})}, "The Hub has trouble (504)", "https://status.huggingface.co"),
    "451": ({"files": (451, {})}, "The Hub did not give the files: ", "451"),
}


@pytest.mark.parametrize("name", REFUSALS)
@pytest.mark.parametrize("incomplete", [True, False])
def test_every_refusal_has_its_sentence_and_its_link(place: Place, name: str, incomplete: bool) -> None:
    if incomplete:
        (place.fetch() / WEIGHTS_FILE).unlink()
    pinned = place.pin
    place.hub.refuse, sentence, link = REFUSALS[name]
    told = place.refused()
    assert sentence in told and link in told
    assert place.pin == pinned


def test_a_revision_that_does_not_exist(place: Place) -> None:
    assert place.refused(revision="v9") == (
        "nvidia/personaplex-7b-v1 has no revision v9; unset PERSONAPLEX_REVISION or name one that exists."
    )


def test_a_page_of_somebody_else_is_no_hub(place: Place) -> None:
    place.hub.refuse = {"api": (200, {"Content-Type": "text/html"})}
    assert place.refused() == (
        f"What answered is not the Hub (HF_ENDPOINT is {place.hub.url}); a proxy or a log-in page may stand before it."
    )


def test_a_pinned_commit_that_the_hub_has_no_more(place: Place) -> None:
    place.fetch()
    shutil.rmtree(place.home)
    place.hub.names = {"main": SECOND_COMMIT}
    assert place.refused() == (
        f"nvidia/personaplex-7b-v1 has no revision {FIRST_COMMIT}; delete {place.cache / PIN_FILE}, then the newest is "
        "taken."
    )


def test_a_repository_that_lacks_a_file(place: Place) -> None:
    del place.hub.files[WEIGHTS_FILE]
    assert "at main lacks a file that is needed" in place.refused()
    assert place.pin is None, "what is not whole is not pinned"


@pytest.mark.parametrize("token", [None, ""])
def test_without_a_token_nothing_is_asked(place: Place, token: str | None) -> None:
    sentence = place.refused(token)
    for part in (LICENCE_PAGE, TOKEN_PAGE, "HF_TOKEN=hf_..."):
        assert part in sentence
    assert place.hub.asked == []


@pytest.mark.parametrize("pin", ["", "main", "../../etc", "\x00", b"\xff\xfe"], ids=repr)
def test_a_pin_that_is_none_is_passed_over(place: Place, pin: str | bytes) -> None:
    place.cache.mkdir()
    (place.cache / PIN_FILE).write_bytes(pin if isinstance(pin, bytes) else pin.encode())
    assert place.fetch().name == FIRST_COMMIT == place.pin


def test_a_pin_that_cannot_be_written_stops_nothing(place: Place) -> None:
    place.cache.write_text("a file where the folder should be")
    assert place.fetch().name == FIRST_COMMIT


def test_a_cache_that_cannot_be_made_is_told(place: Place) -> None:
    place.home.write_text("a file where the folder should be")
    sentence = place.refused()
    assert sentence.startswith(f"{place.home} cannot be written: ") and sentence.endswith(
        "Set HF_HOME to a folder that can."
    )


def test_variables_point_at_another_hub_and_at_nobody(tmp_path: Path) -> None:
    """Two processes of their own: the library reads its variables when it is imported."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
    own = {"HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_TELEMETRY": "1"}

    def fetch(token: str, **variables: str) -> str:
        command = [sys.executable, "-W", "ignore", "-c", FETCH, str(tmp_path / "cache"), token]
        environment = kept | own | variables
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
        return done.stdout.strip() or done.stderr

    with serving(FakeHub(invented_files())) as running:
        assert fetch("hf_good", HF_ENDPOINT=running.url) == FIRST_COMMIT
    assert fetch("", HF_HUB_OFFLINE="1") == FIRST_COMMIT


def test_the_hub_s_files_make_a_stepper(
    place: Place, mini_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("personaplex_app.layouts.available_bytes", lambda: None)  # the released model's room is asked
    place.hub.files = released_files(mini_directory, tmp_path)
    choice = EngineChoice("hub", place.cache, device="cpu", precision="float32", token="hf_good")
    stepper = build_stepper(choice)
    stepper.prime(0, stepper.open(Choices("Hello.", "TINY0", SamplingSettings(), 1)))
    assert stepper.step({0: np.zeros(1920, dtype=np.float32)})[0].healthy and stepper.voice_names == ["TINY0"]
