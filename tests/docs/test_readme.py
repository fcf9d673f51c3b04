"""The README's claims about files and flags are true."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest
import yaml

from personaplex_app import network, settings
from personaplex_app.cli import build_parser
from personaplex_app.engine.admission import Limits
from personaplex_app.engine.call_clock import CallLimits
from personaplex_app.engine.tick_loop import HUNG_SECONDS
from personaplex_app.persona_fields import KNOWN, QUESTIONS
from personaplex_app.personas import parse_persona
from personaplex_app.prompt_shapes import shape_of
from personaplex_app.settings import TOKEN_VARIABLES, add_model_flags, add_serve_flags
from personaplex_app.web.server import FATAL_EXIT_CODE

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TREE = README.split("## The tree")[1].split("```")[1]


def _modules_of_the_tree() -> set[Path]:
    """The tree's Python files with their folders; a folder's lines stand deeper than its own."""
    above: list[tuple[int, Path]] = [(-1, Path())]
    found = set()
    for line in TREE.splitlines():
        indent = len(line) - len(line.lstrip())
        while above[-1][0] >= indent:
            above.pop()
        folder = re.match(r" *([\w/]+)/(?=\s|$)", line)
        if folder:
            above.append((indent, above[-1][1] / folder[1]))
        found |= {above[-1][1] / name for name in re.findall(r"[\w-]+\.py\b", line)}
    return found


@pytest.mark.parametrize("name", sorted(set(re.findall(r"[\w./-]+\.(?:txt|lock|md)", TREE))))
def test_the_tree_names_what_is_there(name: str) -> None:
    assert (ROOT / name).is_file()


def test_every_module_stands_in_the_tree_and_no_other() -> None:
    paths = (ROOT / "personaplex_app").rglob("*.py")
    modules = {path.relative_to(ROOT) for path in paths if not path.name.startswith("__")}
    named = _modules_of_the_tree() - {Path("app.py")}
    assert len(modules) > 30
    assert (sorted(modules - named), sorted(named - modules)) == ([], [])


def _flags_of(parser: argparse.ArgumentParser) -> set[str]:
    """All long flags, those of subcommands included."""
    found = set()
    for action in parser._actions:
        found |= {name for name in action.option_strings if name.startswith("--")}
        if isinstance(action, argparse._SubParsersAction):
            found |= {flag for one in action.choices.values() for flag in _flags_of(one)}
    return found


def _serve_flags() -> set[str]:
    serve = argparse.ArgumentParser(add_help=False)
    add_serve_flags(serve)
    add_model_flags(serve)
    return _flags_of(serve)


def test_flags_named_are_flags() -> None:
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", README.split("## Where to put it")[0]))
    assert len(named) > 20
    assert named - _flags_of(build_parser()) == set()


def test_every_flag_of_serve_stands_in_its_table() -> None:
    table = README.split("| flag of `scripts/start` |")[1].split("\n\n")[0]
    assert _serve_flags() - set(re.findall(r"--[a-z][a-z-]+", table)) == set()


def test_every_variable_is_named_and_no_other() -> None:
    sources = "".join(Path(module.__file__).read_text(encoding="utf-8") for module in (network, settings))
    ours = r"\b(?:PERSONAPLEX|CLOUDFLARE|GRADIO_SERVER)_[A-Z_]+"
    read = set(re.findall(f'"({ours})"', sources)) | set(TOKEN_VARIABLES)
    assert len(read) > 10
    assert read - set(re.findall(r"[A-Z_]{5,}", README)) == set()
    assert set(re.findall(ours, README)) - read == set()


def test_commands_named_are_commands() -> None:
    named = set(re.findall(r"^app ([\w-]+) ", README, flags=re.MULTILINE))
    commands = next(one for one in build_parser()._actions if isinstance(one, argparse._SubParsersAction))
    assert named | {"serve"} == set(commands.choices)


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:web|engine|tests|docs)/[\w/]+\.\w+)`", README))))
def test_files_named_are_there(path: str) -> None:
    assert (ROOT / path).is_file() or (ROOT / "personaplex_app" / path).is_file()


def test_seconds_named_are_those_of_the_code() -> None:
    assert f"A step that hangs for {HUNG_SECONDS:.0f} s ends the process with exit code {FATAL_EXIT_CODE}" in README
    limits, call = Limits(), CallLimits()
    assert f"have {limits.turn_seconds:.0f} s to answer" in README
    assert (
        f"{call.idle_warning_seconds:.0f} s without speech are warned of, {call.idle_end_seconds:.0f} s end" in README
    )
    assert f"address has {limits.joins_per_address} starts a minute" in README


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


PERSONA_SECTION = README.split("A persona of your own")[1].split("## ")[0]


def test_a_persona_s_keys_are_those_the_readme_names() -> None:
    assert [key for key in KNOWN if f"`{key}`" not in PERSONA_SECTION] == []


def test_the_persona_of_the_readme_can_be_pasted() -> None:
    persona = parse_persona(PERSONA_SECTION.split("```yaml\n")[1].split("```")[0], "README.md")
    assert shape_of(persona.prompt) == "service"
    assert len(persona.ask) == QUESTIONS and persona.tags and persona.sampling
