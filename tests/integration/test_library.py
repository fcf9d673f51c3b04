"""The library's routes as the page asks them: checked like files, measured by a real tokenizer, told in sentences."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette

import personaplex_app
from personaplex_app.coach import Ruler
from personaplex_app.controls import SamplingSettings
from personaplex_app.engine.readying import Start
from personaplex_app.errors import InvalidInput
from personaplex_app.model.tokenizer import Tokenizer
from personaplex_app.network import Network
from personaplex_app.personas import load_personas
from personaplex_app.prompt_shapes import TEACHER
from personaplex_app.web.catalogue import Catalogue
from personaplex_app.web.doors import Doors
from personaplex_app.web.library import Library, library_routes
from personaplex_app.web.visitors import Visitors

ROOT = Path(__file__).parents[2]
CHECKPOINTS = Path(personaplex_app.__file__).parent / "checkpoints"
PERSONAS = tuple(load_personas(ROOT / "personas"))
TOKENIZER = Tokenizer(CHECKPOINTS / "demo" / "tokenizer_spm_32k_3.model", 1000)
OURS = SamplingSettings(audio_temperature=0.6, text_temperature=0.3, audio_top_k=50)
VALUES = {
    "id": "kate",
    "title": "Kate",
    "pitch": "Sells bikes.",
    "prompt": "You sell bikes.",
    "voice": "NATF0",
    "ask": ["One", "Two", "Three"],
}
YAML = "id: kate\ntitle: Kate\npitch: Sells bikes.\nprompt: You sell bikes.\nvoice: NATF0\nask: [One, Two, Three]\n"
POSTS = ("persona", "check", "yaml", "coach", "desk")


def _forced(voice: str) -> int:
    if voice not in ("NATF0", "NATM0", "none"):
        raise InvalidInput(f"There is no voice {voice}; this checkpoint has NATF0, NATM0.", code="unknown_voice")
    return 12 if voice == "none" else 137


def _start(persona_id: str) -> Start:
    return Start(persona_id == "astronaut", 0.0 if persona_id == "astronaut" else 1.234)


@dataclass
class Shelf:
    """The routes over real personas and a real tokenizer."""

    ruler: Ruler | None = field(default_factory=lambda: Ruler(TOKENIZER.encode_prompt, _forced, 3000))
    catalogue: Catalogue = field(default_factory=lambda: Catalogue(PERSONAS, ("NATF0", "NATM0"), OURS))

    def __post_init__(self) -> None:
        library = Library(self.catalogue, lambda request: self.ruler, _start)
        self.app: Any = Starlette(routes=library_routes(library, Doors(Visitors(), Network())))

    def ask(self, *requests: tuple[str, bytes | None], **headers: str) -> list[httpx.Response]:
        """What the routes answer, asked all at once."""

        async def ask() -> Sequence[httpx.Response]:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://house", headers=headers) as client:
                return await asyncio.gather(
                    *(
                        client.request("GET" if body is None else "POST", f"/library/{path}", content=body)
                        for path, body in requests
                    )
                )

        return list(asyncio.run(ask()))

    def get(self, path: str) -> httpx.Response:
        return self.ask((path, None))[0]

    def post(self, path: str, values: Any) -> httpx.Response:
        return self.ask((path, values if isinstance(values, bytes) else json.dumps(values).encode()))[0]


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


def _refused(answer: httpx.Response, status: int = 422) -> str:
    assert answer.status_code == status and list(answer.json()) == ["error"]
    sentence = answer.json()["error"]
    assert sentence and "\n" not in sentence and len(sentence) < 600
    return str(sentence)


def test_the_library_s_personas(shelf: Shelf) -> None:
    answer = shelf.get("personas")
    told = answer.json()["personas"]
    assert answer.headers["cache-control"] == "no-store"
    assert [one["id"] for one in told] == [persona.id for persona in PERSONAS] and len(told) >= 20
    for one, persona in zip(told, PERSONAS, strict=True):
        assert list(one) == [
            "id", "title", "pitch", "prompt", "voice", "ask", "tags", "author", "licence", "sampling", "start"
        ]  # fmt: skip
        assert (one["prompt"], one["ask"], one["tags"]) == (persona.prompt, list(persona.ask), list(persona.tags))
        assert one["voice"] in ("NATF0", "NATM0"), "one that this checkpoint has"
    by_id = {one["id"]: one for one in told}
    assert by_id["astronaut"]["start"] == {"ready": True, "seconds": 0.0}
    assert by_id["casual"]["start"] == {"ready": False, "seconds": 1.23}
    assert by_id["casual"]["sampling"] == {
        "audio_temperature": 0.6,
        "text_temperature": 0.3,
        "audio_top_k": 50,
        "text_top_k": 25,
        "repetition_penalty": 1.0,
    }
    assert by_id["dragon"]["sampling"]["text_temperature"] == 0.8


def test_without_voices_there_is_none() -> None:
    told = Shelf(catalogue=Catalogue(PERSONAS, ())).get("personas").json()["personas"]
    assert {one["voice"] for one in told} == {"none"}


def test_a_file_becomes_a_persona(shelf: Shelf) -> None:
    persona = shelf.post("persona", {"yaml": YAML + "tags: [a]\n", "name": "kate.yaml"}).json()["persona"]
    assert persona == {
        **VALUES,
        "tags": ["a"],
        "author": "",
        "licence": "MIT",
        "sampling": {name: getattr(OURS, name) for name in persona["sampling"]},
    }
    assert len(persona["sampling"]) == 5


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {"yaml": YAML.replace("title", "tilte"), "name": "k.yaml"},
            "k.yaml, line 2: unknown key 'tilte' (did you mean",
        ),
        (
            {"yaml": YAML.replace("[One, Two, Three]", "One"), "name": "k.yaml"},
            "k.yaml, line 6: 'ask' must be a list",
        ),
        ({"yaml": "a: [", "name": "k.yaml"}, "k.yaml, line 1, is not readable YAML"),
        ({"yaml": "", "name": "k.yaml"}, "k.yaml must hold a mapping"),
        ({"yaml": "x" * 70_000, "name": "k.yaml"}, "k.yaml has 70,000 characters; at most 65,536 are read"),
        ({"yaml": "a: &a [*a]"}, "persona.yaml, line 1: anchors and aliases"),
        ({"yaml": "x", "name": "../../etc/passwd"}, "passwd must hold"),
        ({"yaml": "x", "name": 7}, "'name' must be a text."),
        ({"yaml": ["x"]}, "'yaml' must be a text."),
        ({"text": "x"}, "Unknown field 'text'; known are yaml, name."),
        ({"yaml": "\ud800: x", "name": "\ud800"}, "persona.yaml"),
        ([], "What was sent is no JSON object."),
        (b"{", "What was sent is no readable JSON."),
    ],
)
def test_a_broken_file_is_told_by_its_line(shelf: Shelf, values: Any, sentence: str) -> None:
    assert _refused(shelf.post("persona", values)).startswith(sentence)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"endpoint": "https://evil.example"}, "unknown key 'endpoint'; known are id, title, pitch, "),
        ({"token": "hf_x"}, "unknown key 'token'"),
        ({"start": {"ready": True}}, "unknown key 'start'"),
        ({"title": "x" * 81}, "'title' has 81 characters; at most 80"),
        ({"prompt": "x" * 20_001}, "'prompt' has 20,001 characters; at most 20,000"),
        ({"prompt": None}, "'prompt' must be a text, not nothing."),
        ({"title": "\ud800"}, "'title' holds the character U+D800"),
        ({"voice": "../NATF0"}, "'voice' must be a name"),
        ({"ask": ["a"]}, "'ask' must hold 3 things to ask, not 1."),
        ({"sampling": {"text_temperature": 9}}, "'sampling': Text temperature must be from 0 to 2, not 9."),
        ({"sampling": {"text_temperature": float("nan")}}, "'sampling': text_temperature must be a number, not nan"),
        ({"sampling": {"text_top_k": 10**400}}, "'sampling': text_top_k must be a number"),
        ({"sampling": {"text_top_k": "5"}}, "'sampling': text_top_k must be a number"),
        ({"sampling": {"top_p": 1}}, "'sampling': unknown key 'top_p'"),
    ],
)
def test_a_visitor_s_persona_is_held_to_the_same_rules(shelf: Shelf, changes: dict[str, Any], sentence: str) -> None:
    for path in ("check", "yaml"):
        assert _refused(shelf.post(path, {**VALUES, **changes})).startswith(sentence)


def test_a_persona_that_came_in_a_link_has_no_id(shelf: Shelf) -> None:
    linked = {key: value for key, value in VALUES.items() if key != "id"}
    persona = shelf.post("check", {**linked, "title": " Kate ", "sampling": {"text_temperature": 0.5}}).json()[
        "persona"
    ]
    assert persona["id"] == "own" and persona["title"] == "Kate" and persona["sampling"]["text_temperature"] == 0.5
    assert "id must be there too" in _refused(shelf.post("yaml", linked)), "a file needs one"


TEXTS = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp", "Cf")), min_size=1, max_size=40).filter(
    str.strip
)


@settings(max_examples=60, deadline=None)
@given(
    st.fixed_dictionaries({"title": TEXTS, "pitch": TEXTS, "prompt": TEXTS, "author": TEXTS}),
    st.lists(TEXTS, min_size=3, max_size=3, unique_by=str.strip),
    st.floats(0, 2),
    st.integers(0, 100),
)
def test_what_is_written_as_yaml_comes_back_the_same(
    texts: dict[str, str], ask: list[str], temperature: float, top_k: int
) -> None:
    values = {**VALUES, **texts, "ask": ask, "sampling": {"text_temperature": temperature, "audio_top_k": top_k}}
    shelf = Shelf()
    persona = shelf.post("check", values).json()["persona"]
    text = shelf.post("yaml", persona).json()["yaml"]
    assert shelf.post("persona", {"yaml": text, "name": "kate.yaml"}).json()["persona"] == persona


def test_a_file_names_only_the_sampling_that_is_the_persona_s_own(shelf: Shelf) -> None:
    told = {one["id"]: one for one in shelf.get("personas").json()["personas"]}
    for name, kept in (("casual", False), ("dragon", True)):
        persona = {key: value for key, value in told[name].items() if key != "start"}
        text = shelf.post("yaml", persona).json()["yaml"]
        assert ("text_temperature: 0.8" in text) == kept and "audio_top_k" not in text


def test_the_coach_counts_with_the_checkpoint_s_tokenizer(shelf: Shelf) -> None:
    told = shelf.post("coach", {"prompt": TEACHER, "voice": "NATF0"}).json()
    tokens = len(TOKENIZER.encode_prompt(TEACHER))
    assert told == {
        "tokens": tokens,
        "positions": tokens + 137,
        "seconds": round((tokens + 137) * 0.08, 2),
        "share": round((tokens + 137) / 3000, 4),
        "most_share": 0.3333,
        "fits": True,
        "shape": "assistant",
        "sentence": "An assistant, as the model was trained.",
        "nearest": None,
    }


def test_the_coach_offers_the_nearest_shape(shelf: Shelf) -> None:
    told = shelf.post("coach", {"prompt": "You work at Acme, a bike shop. A bike costs $45."}).json()
    template = "You work for Acme which is a bike shop and your name is NAME. Information: A bike costs $45."
    assert told["shape"] == "other" and told["nearest"] == {
        "shape": "service",
        "template": template,
        "desk": {"company": "Acme", "kind": "bike shop", "name": "NAME", "facts": "A bike costs $45."},
    }
    assert shelf.post("coach", {"prompt": template}).json()["shape"] == "service"


def test_without_a_model_the_coach_says_that_nobody_knows() -> None:
    told = Shelf(ruler=None).post("coach", {"prompt": TEACHER, "voice": "NATF0"}).json()
    assert [told[key] for key in ("tokens", "positions", "seconds", "share", "fits")] == [None] * 5
    assert told["sentence"].startswith("No model runs here, so nobody knows how many tokens this is.")


@pytest.mark.timed
@pytest.mark.parametrize("letter", ["a", "é", "😀", "\x01", "\n"])
def test_the_longest_prompt_is_answered_within_50_ms_and_a_longer_one_refused(shelf: Shelf, letter: str) -> None:
    body = json.dumps({"prompt": letter * 100_000, "voice": "NATF0"}, ensure_ascii=True).encode()
    shelf.post("coach", {"prompt": "warm"})
    took = []
    for _ in range(3):
        began = time.process_time()
        told = shelf.post("coach", body).json()
        took.append(time.process_time() - began)
    assert min(took) < 0.05, "the test's own client included"
    assert (
        told["fits"] is False and "of its 100,000 characters alone are" in told["sentence"] and told["tokens"] is None
    )
    longer = json.dumps({"prompt": letter * 100_001}, ensure_ascii=False).encode()
    assert _refused(shelf.post("coach", longer), 413) == (
        "The prompt has 100,001 characters; at most 100,000 are looked at."
    )


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"prompt": "x", "voice": "NATM9"}, "There is no voice NATM9"),
        ({"prompt": "x", "voice": "../x"}, "'../x' is no voice name"),
        ({"prompt": 5}, "'prompt' must be a text."),
        ({"text": "x"}, "Unknown field 'text'; known are prompt, voice."),
        ({"prompt": "\ud800"}, "The prompt holds a character that is no letter"),
    ],
)
def test_what_the_coach_cannot_use(shelf: Shelf, values: Any, sentence: str) -> None:
    assert _refused(shelf.post("coach", values)).startswith(sentence)


def test_the_desk_s_form(shelf: Shelf) -> None:
    asked = {"company": "Acme", "kind": "airline", "name": "Ann", "facts": "Flights cost $9"}
    assert shelf.post("desk", asked).json() == {
        "prompt": "You work for Acme which is an airline and your name is Ann. Information: Flights cost $9."
    }
    assert _refused(shelf.post("desk", {**asked, "name": " "})) == "'name' must be a text; it is empty."
    assert _refused(shelf.post("desk", {**asked, "facts": "x" * 5000})).startswith("'facts' has 5,000 characters")


@pytest.mark.parametrize(
    ("path", "most"), [("persona", 320), ("check", 320), ("yaml", 320), ("coach", 1235), ("desk", 64)]
)
def test_a_body_that_is_too_large_is_refused_before_it_is_parsed(shelf: Shelf, path: str, most: int) -> None:
    assert _refused(shelf.post(path, b"[" * (most * 1024 + 1024)), 413) == (
        f"What was sent is too large; at most {most} KiB are read."
    )


def test_strangers_stay_outside(shelf: Shelf) -> None:
    requests = [("personas", None), *((path, b"{}") for path in POSTS)]
    for answer in shelf.ask(*requests, origin="https://evil.example"):
        assert _refused(answer, 403) == "This page belongs to another origin."
    for path in POSTS:
        assert shelf.get(path).status_code == 405


def test_a_rush_of_prompts_is_turned_away_and_the_rest_answered(shelf: Shelf) -> None:
    body = json.dumps({"prompt": "hello there " * 1500}).encode()
    codes = [answer.status_code for answer in shelf.ask(*[("coach", body)] * 80)]
    assert set(codes) == {200, 429} and codes.count(200) >= 64
    assert shelf.post("coach", body).status_code == 200


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(["yaml", "name", "prompt", "voice", "company", "kind", "facts", *VALUES, "sampling", "tags"])


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(POSTS), st.dictionaries(NAMES, ANYTHING, max_size=4) | ANYTHING, st.booleans())
def test_anything_gives_an_answer_or_a_sentence(path: str, values: Any, good: bool) -> None:
    sent = {**VALUES, **values} if good and isinstance(values, dict) else values
    answer = Shelf().post(path, sent)
    assert answer.status_code in (200, 422) and isinstance(answer.json(), dict)
