"""The README in other languages names what is there, and says no other figure than the English one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_readme import README, ROOT, TREE, _flags_of, _serve_flags

from personaplex_app.cli import build_parser
from personaplex_app.web.languages import table_of

TRANSLATIONS = {language: (ROOT / f"README.{language}.md").read_text(encoding="utf-8") for language in ("zh", "ko")}
LANGUAGES = {"README.md": "English", "README.zh.md": "中文", "README.ko.md": "한국어"}
LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.fixture(params=TRANSLATIONS)
def language(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_all_three_name_one_another_at_the_top() -> None:
    for name in LANGUAGES:
        top = (ROOT / name).read_text(encoding="utf-8").split("# personaplex_app\n", 1)[1][:300]
        for other, title in LANGUAGES.items():
            assert (f"**{title}**" if other == name else f"[{title}]({other})") in top
    assert "README.zh.md" in TREE and "README.ko.md" in TREE


def test_commands_and_code_are_the_english_one_s(language: str) -> None:
    fences = re.findall(r"```bash\n(.*?)```", TRANSLATIONS[language], flags=re.DOTALL)
    commands = [line.split("#")[0].strip() for fence in fences for line in fence.splitlines()]
    assert len(commands) == 3
    for command in commands:
        assert command in README
    for code in re.findall(r"`([^`\n]+)`", TRANSLATIONS[language].split("| --- |")[0]):
        assert code in README or code.startswith(".venv/bin/python -m personaplex_app doctor"), code


def test_flags_and_variables_named_are_there(language: str) -> None:
    ours = TRANSLATIONS[language].replace("--repo-type", "")  # the Hub's
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", ours))
    assert len(named) > 12
    assert named <= _flags_of(build_parser())
    table = set(re.findall(r"^\| (`--.*?) \|", ours, flags=re.MULTILINE))
    assert {flag for row in table for flag in re.findall(r"--[a-z][a-z-]+", row)} <= _serve_flags()
    assert set(re.findall(r"\b[A-Z]+_[A-Z_]+\b", ours)) <= set(re.findall(r"\b[A-Z]+_[A-Z_]+\b", README))


def test_figures_are_the_english_one_s(language: str) -> None:
    """Every number, but for the counting words that a language writes otherwise."""
    numbers = set(re.findall(r"\d+(?:\.\d+)?(?:-\d+)?", TRANSLATIONS[language]))
    english = set(re.findall(r"\d+(?:\.\d+)?(?:-\d+)?", README)) | {"1", "3"}
    ranges = {f"{one}-{two}" for one, two in re.findall(r"(\d+) to (\d+)", README)}
    assert numbers - english - ranges == set()


def test_links_lead_somewhere(language: str) -> None:
    headings = {
        re.sub(r"[^\w -]", "", line).lower().replace(" ", "-") for line in re.findall(r"^## (.+)$", README, re.M)
    }
    for link in LINK.findall(TRANSLATIONS[language]):
        if link.startswith("https://"):
            assert link in README
            continue
        path, _, heading = link.partition("#")
        assert (ROOT / path).is_file() and (not heading or heading in headings), link


def test_buttons_are_called_as_on_the_page(language: str) -> None:
    page = table_of(language).parts["page"]
    for english in ("Talk", "Check my set-up", "Copy link", "Save as mine", "Export", "Import a file"):
        assert f"**{page[english]}**" in TRANSLATIONS[language]


def test_the_translation_is_not_the_space_s_front_page() -> None:
    assert all(
        Path(ROOT / name).read_text(encoding="utf-8").startswith("# ") for name in LANGUAGES if name != "README.md"
    )
