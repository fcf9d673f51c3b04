"""Chinese and Korean have every sentence that the page or the server can show, and none that nobody says."""

from __future__ import annotations

import json
import re
from functools import cache

import pytest
from support.sentences import PACKAGE, STATIC, TOLD, html_keys, module_keys, script_keys

from personaplex_app.personas import load_personas
from personaplex_app.web.languages import PARTS, PLACE, TAGS, Table, table_of, wished_language
from personaplex_app.web.page import page_words
from personaplex_app.web.server import DEMO_PERSONAS, PERSONAS

SAME = {"Hugging Face Space", "SF", "{level} dBFS", "{share} %", "{ms}ms"}  # names and units
OTHERS = [language for language in TAGS if language != "en"]
# Everything that these say can come to a visitor, but for what is named here: texts for programs, logs and files.
FOR_VISITORS: dict[str, set[str]] = {
    **{
        str(path.relative_to(PACKAGE)): set()
        for folder in ("web", "engine")
        for path in (PACKAGE / folder).glob("*.py")
    },
    **{name: set() for name in ("clip_decoder.py", "clip_reader.py", "coach.py", "persona_fields.py", "plain_yaml.py")},
    **{name: set() for name in ("voice_clip.py", "voices.py", "records/recording.py", "personas.py")},
    "controls.py": {"top k"},
    "loudness.py": {"Possible clipped samples"},
    "preview_sounds.py": {"You work for Blue River which is a bike shop and your name is {name}."},
    "engine/comeback.py": {"a parked talk could not be brought back"},
    "engine/errands.py": {"an errand failed"},
    "engine/facade.py": {"the stepper belongs to the tick thread now"},
    "engine/porter.py": {"a parked talk could not be brought into host memory and is dropped"},
    "engine/readying.py": {"{name} could not be made ready"},
    "engine/tick_loop.py": {
        "a lent slot could not be wiped",
        "a step failed",
        "priming slot {slot} failed",
        "slot {slot} could not be saved; its talk cannot be resumed",
        "the tick thread failed",
    },
    "web/form.py": {"top k"},
    "web/health.py": {"not ready"},
    "web/recording_routes.py": {
        "application/x-subrip; charset=utf-8",
        'attachment; filename="talk-{name}.{kind}"',
        "text/vtt; charset=utf-8",
        "{synthetic} It is the right channel; the left one is the visitor's microphone.",
    },
    "web/starting.py": {"not ready", "of"},
    "web/turn.py": {"Bearer {token}", "no relay", "{cloudflare_id} and {cloudflare_token}"},
    "web/voice_previews.py": {"private, max-age=3600", "the preview of {voice} was not made"},
}
# Told to programs, or in HTML, headers and files alone.
NOT_SHOWN = ("web/page.py", "web/preview.py", "web/progress.py", "web/protocol.py", "web/visitors.py")
NOT_SHOWN += ("web/talk_socket.py", "web/recorded_talk.py", "web/listening.py")
# What the first page may show when the start fails: the operator's, translated where it is likely.
FOR_OPERATORS = (
    "assemble",
    "network",
    "out_of_memory",
    "planner",
    "prompt_shapes",
    "sources",
    "model/*",
    "model/fast/*",
)
# Too short to be taken for sentences in the sources; `test_figures_with_a_unit_are_said` drives what makes them.
SMALL = {"{seconds} min", "{seconds} s", "{seconds} minutes", "{seconds} seconds", "off", "Starting"}
SMALL |= {f"{{name}} · {style}, {gender}" for style in ("natural", "varied") for gender in ("female", "male")}


def _sources(pattern: str) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(PACKAGE.glob(pattern)))


def _page_keys() -> set[str]:
    scripts = set(STATIC.glob("*.js"))
    parts = {path for path in STATIC.glob("*.html") if path.name != "starting.html"}
    said = [script_keys(path.read_text(encoding="utf-8")) for path in scripts]
    return set().union(*said, *(html_keys(path.read_text(encoding="utf-8")) for path in parts))


@cache
def _visitors_keys() -> set[str]:
    shown = {name: known for name, known in FOR_VISITORS.items() if name not in NOT_SHOWN}
    keys = set[str]()
    for name, not_said in shown.items():
        found = module_keys((PACKAGE / name).read_text(encoding="utf-8"))
        assert not_said <= found, f"{name} does not hold {sorted(not_said - found)}"
        keys |= found - not_said
    return {key for key in keys if key.rstrip(" .") not in _phases()} - {_policy()}


@cache
def _phases() -> set[str]:
    """What is being done while the server starts; the first page shows it without its dots."""
    reports = re.findall(r"report\(\"([^\"{]+?) \.\.\.\"\)", _sources("**/*.py"))
    return set(reports)


def _policy() -> str:
    return next(key for key in module_keys(_sources("web/starting.py")) if key.startswith("default-src"))


def _tags() -> set[str]:
    return {tag for folder in (PERSONAS, DEMO_PERSONAS) for persona in load_personas(folder) for tag in persona.tags}


@pytest.mark.parametrize("language", OTHERS)
def test_every_text_of_the_page_is_there_and_no_other(language: str) -> None:
    keys, words = _page_keys(), set(table_of(language).parts["page"])
    assert len(keys) > 150
    assert (sorted(keys - words), sorted(words - keys)) == ([], [])


@pytest.mark.parametrize("language", OTHERS)
def test_every_sentence_of_the_server_s_is_there_and_no_other(language: str) -> None:
    words = set(table_of(language).parts["server"])
    wanted = _visitors_keys() | _phases() | _tags() | SMALL
    assert len(wanted) > 200
    assert sorted(wanted - words - set(table_of(language).parts["page"])) == []
    operators = set().union(*(module_keys(_sources(f"{name}.py")) for name in FOR_OPERATORS))
    listening = module_keys(_sources("web/listening.py"))
    spoken = wanted | operators | listening | {key.rstrip(" .") for key in operators}
    assert sorted(words - spoken) == []


@pytest.mark.parametrize("language", OTHERS)
def test_the_first_page_s_and_the_boxes_texts_are_there_and_no_other(language: str) -> None:
    parts = table_of(language).parts
    first = STATIC.joinpath("starting.html").read_text(encoding="utf-8")
    assert sorted(parts["starting"]) == sorted(script_keys(first) | html_keys(first))
    page = (PACKAGE / "web" / "page.py").read_text(encoding="utf-8")
    labels = set(re.findall(r"_said\(\"([^\"]+)\"\)", page))
    titles = [key for key in parts["boxes"] if key.startswith("# ")]
    assert len(titles) == 1 and all(key in titles[0] for key in ("Talk with a persona", "English only"))
    assert sorted(parts["boxes"]) == sorted({*labels, *titles})


@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize("part", PARTS)
def test_a_translation_has_the_same_places_and_is_one(part: str, language: str) -> None:
    for english, other in table_of(language).parts[part].items():
        assert set(PLACE.findall(other)) == set(PLACE.findall(english)), english
        assert re.search(r"[\u3400-\u9fff]" if language == "zh" else r"[\uac00-\ud7a3]", other) or other in SAME, (
            english
        )


def test_both_tables_have_the_same_keys_in_order() -> None:
    held = [json.loads((STATIC / "locales" / f"{language}.json").read_text(encoding="utf-8")) for language in OTHERS]
    for part in PARTS:
        assert list(held[0][part]) == list(held[1][part]) == sorted(held[0][part])


NAMES = {"NATF0", "WebRTC", "TURN", "Cloudflare", "no", "bin", "dB", "ms", "top", "a", "k"}


@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize("sentence", TOLD)
def test_figures_with_a_unit_are_said(sentence: str, language: str) -> None:
    said = table_of(language).translated(sentence)
    left = set(re.findall(r"[A-Za-z]+\d*", said)) - NAMES
    assert left == set(), said
    assert "{" not in said


@pytest.mark.parametrize("language", OTHERS)
def test_what_is_unknown_stays_as_it_is(language: str) -> None:
    table = table_of(language)
    for strange in ("", "Nobody says this. Nor this", "<b>x</b> in 5 s", "x" * 20_000, "a. " * 300):
        assert table.translated(strange) == strange
    mixed = table.translated("Nobody says this. The connection was lost. Nor this.")
    assert mixed.startswith("Nobody says this. ") and mixed.endswith("Nor this.")
    assert table.parts["server"]["The connection was lost."] in mixed


@pytest.mark.parametrize(
    ("wishes", "language"),
    [
        ("", "en"),
        ("zh-TW,zh;q=0.9,en;q=0.8", "zh"),
        ("ko-KR", "ko"),
        ("de, en;q=0.5, ko;q=0.7", "ko"),
        ("fr", "en"),
        ("zh;q=oops, en", "en"),
        ("," * 5000, "en"),
    ],
)
def test_a_browser_s_wishes_are_read_as_it_means_them(wishes: str, language: str) -> None:
    assert wished_language(wishes) == language


def test_a_language_that_is_none_is_english() -> None:
    for name in ("en", "", "../../etc/passwd", "zh-CN"):
        assert table_of(name).translated("The connection was lost.") == "The connection was lost."
    assert Table("zh", {}).translated("Ready.") == "Ready."


def test_gradio_gets_every_label_in_every_language_and_the_notice_too() -> None:
    from personaplex_app.web.catalogue import ECHO_NOTICE, Catalogue

    words = page_words(Catalogue(tuple(load_personas(PERSONAS)), (), notice=ECHO_NOTICE)).translations
    assert sorted(words) == sorted(TAGS.values())
    assert words["en"][ECHO_NOTICE] == ECHO_NOTICE and "回声" in words["zh-CN"][ECHO_NOTICE]
    assert {frozenset(one) for one in words.values()} == {frozenset(words["en"])}
