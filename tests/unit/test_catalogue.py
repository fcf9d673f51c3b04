"""What the page offers: the personas, the checkpoint's voices, and always a voice that exists."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from personaplex_app.controls import SamplingSettings
from personaplex_app.model.config import read_config
from personaplex_app.model.stand_in import full_stand_in
from personaplex_app.personas import Persona
from personaplex_app.web import catalogue as catalogues
from personaplex_app.web.catalogue import (
    ECHO_NOTICE,
    RANDOM_NOTICE,
    REAL_NOTICE,
    TOY_NOTICE,
    Catalogue,
    notice_of,
    preview_note_of,
    speed_words,
)


def _persona(name: str, voice: str = "NATF0") -> Persona:
    return Persona(name, f"The {name}", "pitch", "prompt", voice, ("a", "b", "c"))


PERSONAS = tuple(_persona(name) for name in "abcdef")


def test_an_id_that_does_not_exist_gives_the_first() -> None:
    catalogue = Catalogue(PERSONAS, ())
    assert catalogue.persona("f").id == "f"
    assert all(catalogue.persona(name) is PERSONAS[0] for name in ("", "nobody", "../../etc/passwd", "\x00"))


def test_voices_are_described_and_none_comes_last() -> None:
    choices = Catalogue(PERSONAS, ("NATF0", "VARM2", "TINY0")).voice_choices
    assert [name for _, name in choices] == ["NATF0", "VARM2", "TINY0", "none"]
    assert [words for words, _ in choices] == [
        "NATF0 · natural, female",
        "VARM2 · varied, male",
        "TINY0",
        "no voice prompt",
    ]


@pytest.mark.parametrize(
    ("voices", "wanted", "given"),
    [(("NATF0", "NATM1"), "NATM1", "NATM1"), (("TINY0", "TINY1"), "NATM1", "TINY0"), ((), "NATM1", "none")],
)
def test_a_persona_gets_its_voice_or_one_that_is_there(voices: tuple[str, ...], wanted: str, given: str) -> None:
    assert Catalogue(PERSONAS, voices).voice_of(_persona("x", wanted)) == given


def test_sampling_defaults_to_the_reference_s() -> None:
    assert Catalogue(PERSONAS, ()).sampling == SamplingSettings() and Catalogue(PERSONAS, ()).notice == REAL_NOTICE


def test_the_notices_say_plainly_what_one_hears() -> None:
    for part in ("toy, not PersonaPlex", "recites", "24 GB", "licence", "HF_TOKEN", "--checkpoint hub"):
        assert part in TOY_NOTICE
    for part in ("English only", "headphones", "240 seconds"):
        assert part in REAL_NOTICE
    assert "hear yourself" in ECHO_NOTICE and "noise" in RANDOM_NOTICE


def test_a_model_s_notice_goes_by_what_it_is_not_by_where_it_lies(tmp_path: Path) -> None:
    packaged = Path(catalogues.__file__).parents[1] / "checkpoints"
    (tmp_path / "config.json").write_text(json.dumps(full_stand_in().text))
    for path, notice, preview in [
        (packaged / "demo" / "config.json", TOY_NOTICE, "toy"),
        (packaged / "mini" / "config.json", RANDOM_NOTICE, "Noise"),
        (tmp_path / "config.json", RANDOM_NOTICE, "Noise"),
        (tmp_path / "released.json", REAL_NOTICE, ""),
    ]:
        config = read_config(path)
        assert notice_of(config.random, config.trained_positions) == notice
        said = preview_note_of(config.random, config.trained_positions)
        assert preview in said and bool(preview) == bool(said)


@pytest.mark.parametrize(
    ("step_ms", "words"),
    [
        (6.84, "A frame takes 6.8 ms of 80 here."),
        (41.7, "A frame takes 42 ms of 80 here."),
        (
            310.2,
            "A frame takes 310 ms; 80 would be real time: talking will stutter here, offline render works.",
        ),
    ],
)
def test_the_measured_step_is_told_with_what_it_means(step_ms: float, words: str) -> None:
    assert speed_words(step_ms) == words


def test_facts_stand_below_the_notice() -> None:
    catalogue = Catalogue(PERSONAS, ("NATF0",)).saying("One fact.")
    assert catalogue.notice == f"{REAL_NOTICE}\n\nOne fact." and catalogue.saying("").notice == catalogue.notice
    assert catalogue.voices == ("NATF0",)
