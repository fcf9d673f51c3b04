"""The README's claims about files and flags are true."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest
import yaml

from personaplex_app.cli import build_parser
from personaplex_app.settings import add_model_flags, add_serve_flags

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TREE = README.split("## The tree")[1].split("```")[1]


@pytest.mark.parametrize("name", sorted(set(re.findall(r"[\w-]+\.(?:py|txt|lock)", TREE))))
def test_the_tree_names_what_is_there(name: str) -> None:
    folders = [ROOT, *(ROOT / "personaplex_app").rglob("*/"), ROOT / "personaplex_app"]
    assert any((folder / name).is_file() for folder in folders)


def test_every_module_stands_in_the_tree() -> None:
    modules = [path for path in (ROOT / "personaplex_app").rglob("*.py") if not path.name.startswith("__")]
    assert len(modules) > 30
    assert [path.name for path in modules if path.name not in TREE] == []


def test_flags_named_are_flags() -> None:
    serve = argparse.ArgumentParser()
    add_serve_flags(serve)
    add_model_flags(serve)
    text = serve.format_help() + build_parser().format_help()
    render = build_parser().parse_args(["render", "a", "b"])
    named = set(re.findall(r"`?(--[a-z][a-z-]+)", README.split("## Where to put it")[0]))
    known = set(re.findall(r"--[a-z][a-z-]+", text)) | {f"--{name.replace('_', '-')}" for name in vars(render)}
    assert len(named) > 10
    assert named <= known, named - known


def test_scripts_of_the_readme_are_executable() -> None:
    for name in ("scripts/start", "scripts/check"):
        assert name in README
        assert (ROOT / name).stat().st_mode & 0o100


def test_front_matter_is_a_space_s() -> None:
    front = yaml.safe_load(README.split("---")[1])
    pins = (ROOT / "requirements.txt").read_text()
    assert front["sdk"] == "gradio"
    assert f"gradio=={front['sdk_version']}" in pins
    assert front["python_version"] == "3.11"
    assert (ROOT / front["app_file"]).is_file()
    assert {"suggested_hardware", "license"} <= set(front)


def test_a_persona_s_keys_are_those_the_readme_names() -> None:
    from personaplex_app.personas import _KNOWN

    paragraph = README.split("A persona of your own")[1].split("## ")[0]
    assert [key for key in _KNOWN if f"`{key}`" not in paragraph] == []
