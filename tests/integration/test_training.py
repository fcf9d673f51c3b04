"""The whole training at toy size: from the little world to a checkpoint that the app loads, talks with and marks."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from personaplex_app.assemble import build_stepper
from personaplex_app.controls import Choices
from personaplex_app.model.checkpoint import CODEC_FILE, TOKENIZER_FILE, WEIGHTS_FILE
from personaplex_app.offline import render
from personaplex_app.personas import load_personas
from personaplex_app.settings import EngineChoice
from training import evaluate, package, run
from training.codec import __main__ as codec
from training.decoder import __main__ as decoder
from training.encode import __main__ as encode
from training.encode.shelves import read_agents, read_tracks
from training.language import __main__ as language
from training.places import Places
from training.shrink import restored
from training.speech import __main__ as speech
from training.speech.shelf import Utterance, read_bank, unpack, write_shelf
from training.world import __main__ as world

PROMPT = "You enjoy having a good conversation. Your name is Frank."
GATE = "depformer.layers.0.gating.2.linear_out.weight"


def _log(places: Places, step: str) -> list[dict]:
    return [json.loads(line) for line in (places.work / "log" / f"{step}.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    """Every step once; the codec's in two calls."""
    made = Places(tmp_path_factory.mktemp("training"))
    common = ["--work", str(made.work), "--size", "toy"]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    world.main(common)
    speech.main([*common, "--families", "agents", "hibari", "--processes", "1"])
    codec.main([*common, "--seconds", "0"])
    assert not made.codec.exists(), "no time was given"
    for step in (codec, encode, language, decoder, package):
        step.main(common)
    torch.set_num_threads(threads)
    return made


def test_every_step_leaves_its_work_and_a_log_against_time(places: Places) -> None:
    for step in run.STEPS:
        assert run.is_done(step, places), step
        assert [entry["at"] for entry in _log(places, step)] == sorted(entry["at"] for entry in _log(places, step)) or (
            step == "codec"
        )
    codec_log = _log(places, "codec")
    assert [entry["event"] for entry in codec_log if entry["event"] in ("stopped", "done")] == ["stopped", "done"]
    assert {"spectra", "phonemes", "spent"} <= set(next(entry for entry in codec_log if entry["event"] == "steps"))


def test_a_step_that_is_done_does_nothing_again(places: Places) -> None:
    before = {path: path.stat().st_mtime_ns for path in places.work.rglob("*.pt")}
    common = ["--work", str(places.work), "--size", "toy"]
    for step in (world, codec, language, decoder):
        step.main(common)
    speech.main([*common, "--families", "agents", "--processes", "1"])
    assert {path: path.stat().st_mtime_ns for path in places.work.rglob("*.pt")} == before


def test_a_packaged_codec_is_trained_on(places: Places, tmp_path: Path) -> None:
    later = Places(tmp_path)
    shutil.copytree(places.speech, later.speech)
    codec.main(["--work", str(tmp_path), "--size", "toy", "--begin-with", str(places.package), "--seconds", "0"])
    state = torch.load(tmp_path / "codec" / "state.pt", weights_only=True)
    packaged = load_file(places.package / CODEC_FILE)
    assert all(torch.equal(state["training"][f"mimi.{name}"], one.float()) for name, one in packaged.items())
    assert state["progress"][2]["quantizer"] < 0, "the quantizer is on from the first step"
    codec.main(["--work", str(tmp_path), "--size", "toy", "--begin-with", str(places.package)])
    assert later.codec.exists()


def test_a_packaged_codec_is_kept_where_it_gets_no_time(places: Places, tmp_path: Path) -> None:
    later = Places(tmp_path)
    shutil.copytree(places.speech, later.speech)
    codec.main(["--work", str(tmp_path), "--size", "toy", "--begin-with", str(places.package), "--pace", "0"])
    kept, packaged = torch.load(later.codec, weights_only=True), load_file(places.package / CODEC_FILE)
    assert all(torch.equal(kept[name].float(), one.float()) for name, one in packaged.items())


def test_a_packaged_language_model_is_trained_on_where_the_words_are_the_same(places: Places, tmp_path: Path) -> None:
    packaged = restored(load_file(places.package / WEIGHTS_FILE))
    for number, same in enumerate((True, False)):
        later = Places(tmp_path / str(number))
        shutil.copytree(places.codes, later.codes)
        shutil.copytree(places.tokenizer.parent, later.tokenizer.parent)
        earlier = tmp_path / f"package-{number}"
        shutil.copytree(places.package, earlier)
        if not same:
            (earlier / TOKENIZER_FILE).write_bytes(b"other pieces")
        language.main(["--work", str(later.work), "--size", "toy", "--begin-with", str(earlier), "--seconds", "0"])
        state = torch.load(later.language.with_name("state.pt"), weights_only=True)
        assert state["progress"][2]["later"] == int(same)
        assert torch.equal(state["training"]["text_emb"], packaged["text_emb.weight"]) is same
        assert torch.equal(state["training"]["audio_emb"][3], packaged["emb.3.weight"]) is same
        assert torch.equal(state["training"]["depth_gate_out"][0, 2], packaged[GATE]) is same


def test_user_tracks_are_encoded_whole(places: Places) -> None:
    codes, tracks = read_tracks(places.codes)
    assert len(codes) == len(tracks) >= 4
    assert all(one.shape == (8, track.frames) for one, track in zip(codes, tracks, strict=True))
    agents = read_agents(places.codes)
    assert {one.voice for one in agents.renderings} == {"NATF0", "NATM0"}
    assert all(len(one.words) == len(one.text.split()) for one in agents.renderings)


def test_the_app_loads_the_package_and_talks_with_it(places: Places, cache_outside_home: Path) -> None:
    stepper = build_stepper(EngineChoice(str(places.package), cache_outside_home, device="cpu"))
    assert stepper.voice_names == ["NATF0", "NATM0"]
    opening = stepper.open(Choices(PROMPT, "NATM0", stepper.config.sampling, 1))
    rendered = render(stepper, opening, np.zeros(24_000, np.float32))
    assert np.isfinite(rendered.pcm).all() and rendered.pcm.any()
    assert {load_file(places.package / WEIGHTS_FILE)[name].dtype for name in ("emb.0.weight", "linears.7.weight")} == {
        torch.int8
    }
    assert (places.package / TOKENIZER_FILE).read_bytes() == places.tokenizer.read_bytes()
    personas = load_personas(places.package / "personas")
    assert len(personas) >= 6 and {one.voice for one in personas} <= {"NATF0", "NATM0"}


def test_the_evaluation_marks_the_package(places: Places, tmp_path: Path, cache_outside_home: Path) -> None:
    arguments = [str(places.package), "--out", str(tmp_path), "--cache", str(cache_outside_home), "--talks", "1"]
    evaluate.main([*arguments, "--seconds", "26", "--voices", "hibari", "--codec-sentences", "1"])
    told = json.loads((tmp_path / "marks.json").read_text())
    assert told["figures"]["questions"] >= 1
    assert "| right by text |" in (tmp_path / "table.md").read_text()


def test_the_package_travels_in_parts(places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "PART_BYTES", 1 << 20)
    run.write_parts(places, tmp_path / "parts")
    parts = sorted((tmp_path / "parts").iterdir(), key=lambda path: int(path.suffix[1:]))
    assert len(parts) > 1
    (tmp_path / "whole.tar").write_bytes(b"".join(part.read_bytes() for part in parts))
    with tarfile.open(tmp_path / "whole.tar") as tar:
        assert f"package/{WEIGHTS_FILE}" in tar.getnames()


def test_shelves_that_travel_come_back_nearly_as_they_were(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    seconds = np.arange(24_000) / 24_000
    said = [
        (Utterance("user", "tone", str(pitch)), (0.3 * np.sin(2 * np.pi * pitch * seconds)).astype(np.float32))
        for pitch in rng.integers(200, 800, 5)
    ]
    write_shelf(tmp_path, "tones", said, packed=True)
    travelled = read_bank(tmp_path)
    unpack(tmp_path, 2)
    bank = read_bank(tmp_path)
    assert not list(tmp_path.glob("*.opus")) and np.array_equal(bank.sound, travelled.sound)
    assert [one.text for one in bank.utterances] == [one.text for one, _ in said]
    for one, (_, pcm) in zip(bank.utterances, said, strict=True):
        assert np.corrcoef(bank.pcm(one), pcm)[0, 1] > 0.98
