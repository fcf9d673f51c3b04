"""The library's routes: its personas, a visitor's own checked or turned into YAML and back, the coach, the desk's form.

`GET library/personas`; `POST library/persona`, `library/check`, `library/yaml`, `library/coach`, `library/desk`. All
speak JSON; an error is `{"error": "one sentence"}`. Nothing is kept of what is sent.
In: a catalogue, the model's ruler, who is let in. Out: Starlette routes. Must not know: the page, the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from personaplex_app.coach import MOST_PROMPT_CHARACTERS, MOST_SHARE, Advice, Ruler, advise
from personaplex_app.controls import SamplingSettings
from personaplex_app.errors import InvalidInput
from personaplex_app.persona_fields import SAMPLING
from personaplex_app.personas import Persona, parse_persona, persona_from_mapping, persona_text
from personaplex_app.prompt_shapes import write_desk
from personaplex_app.voices import NO_VOICE, check_voice_name
from personaplex_app.web.catalogue import Catalogue
from personaplex_app.web.doors import Doors
from personaplex_app.web.health import NOT_KEPT
from personaplex_app.web.json_body import MOST_BODY_BYTES, Values, Work, Workbench

FORBIDDEN = 403
UNNAMED = "own"
MOST_PERSONA_BYTES = 320 << 10  # a prompt of 20,000 characters, each as long as JSON can make it, and the rest
MOST_COACH_BYTES = MOST_BODY_BYTES + 12 * MOST_PROMPT_CHARACTERS
TOLD = ("id", "title", "pitch", "prompt", "voice", "ask", "tags", "author", "licence")


class Start(Protocol):
    """Whether a persona's prompt is read already, and how long that takes otherwise."""

    @property
    def ready(self) -> bool: ...

    @property
    def seconds(self) -> float: ...


Readiness = Callable[[str], Start]
Rulers = Callable[[Request], Ruler | None]


def persona_view(persona: Persona, sampling: SamplingSettings) -> dict[str, Any]:
    """A persona as JSON; all five sampling values, as they hold over the checkpoint's own."""
    told: dict[str, Any] = {key: getattr(persona, key) for key in TOLD}
    held = persona.sampling_over(sampling)
    return {**told, "sampling": {name: getattr(held, name) for name in SAMPLING}}


def only_own_sampling(persona: Persona, sampling: SamplingSettings) -> Persona:
    """The persona with only those sampling values that differ from the checkpoint's own, as a file should have them."""
    own = {name: value for name, value in persona.sampling.items() if value != getattr(sampling, name)}
    return replace(persona, sampling=own)


class Library:
    """What each route answers; all but `personas` runs in a thread.

    Args:
        rulers: the model's, for the visitor who asks, None where no model runs; called on the event loop.
        readiness: of a persona by id.
    """

    def __init__(self, catalogue: Catalogue, rulers: Rulers, readiness: Readiness) -> None:
        self._catalogue = catalogue
        self.rulers = rulers
        self._readiness = readiness

    def personas(self) -> Values:
        """All of them, each with a voice that this checkpoint has, and how soon it starts."""
        return {"personas": [self._shelved(persona) for persona in self._catalogue.personas]}

    def _shelved(self, persona: Persona) -> dict[str, Any]:
        start = self._readiness(persona.id)
        return {
            **persona_view(persona, self._catalogue.sampling),
            "voice": self._catalogue.voice_of(persona),
            "start": {"ready": start.ready, "seconds": round(start.seconds, 2)},
        }

    def read(self, values: Values) -> Values:
        """A file's persona."""
        _check_known(values, "yaml", "name")
        return self._told(parse_persona(_text(values, "yaml"), _text(values, "name")))

    def check(self, values: Values) -> Values:
        """A persona by the rules of a file's; one that came in a link has no id."""
        return self._told(persona_from_mapping({"id": UNNAMED, **values}))

    def write(self, values: Values) -> Values:
        """A persona as a file."""
        return {"yaml": persona_text(only_own_sampling(persona_from_mapping(values), self._catalogue.sampling))}

    def coach(self, values: Values, ruler: Ruler | None) -> Values:
        """What the coach says of a prompt."""
        _check_known(values, "prompt", "voice")
        voice = check_voice_name(_text(values, "voice") or NO_VOICE)
        return advice_view(advise(_text(values, "prompt"), voice, ruler))

    def desk(self, values: Values) -> Values:
        """A service desk's prompt."""
        return {"prompt": write_desk(values).prompt}

    def _told(self, persona: Persona) -> Values:
        return {"persona": persona_view(persona, self._catalogue.sampling)}


def library_routes(library: Library, doors: Doors) -> list[BaseRoute]:
    """The six routes."""
    bench = Workbench()

    async def personas(request: Request) -> Response:
        refusal = doors.refusal(request)
        return _forbidden(refusal) if refusal else JSONResponse(dict(library.personas()), headers=NOT_KEPT)

    def post(path: str, work: Callable[[Request], Work], most_bytes: int) -> Route:
        async def answer(request: Request) -> Response:
            refusal = doors.refusal(request)
            return _forbidden(refusal) if refusal else await bench.answer(request, work(request), most_bytes)

        return Route(path, answer, methods=["POST"])

    def coach(request: Request) -> Work:
        ruler = library.rulers(request)
        return lambda values: library.coach(values, ruler)

    return [
        Route("/library/personas", personas),
        post("/library/persona", lambda request: library.read, MOST_PERSONA_BYTES),
        post("/library/check", lambda request: library.check, MOST_PERSONA_BYTES),
        post("/library/yaml", lambda request: library.write, MOST_PERSONA_BYTES),
        post("/library/coach", coach, MOST_COACH_BYTES),
        post("/library/desk", lambda request: library.desk, MOST_BODY_BYTES),
    ]


def advice_view(advice: Advice) -> dict[str, Any]:
    """What the coach says as JSON; None where nobody knows."""
    length, near = advice.length, advice.nearest
    return {
        "tokens": length and length.tokens,
        "positions": length and length.positions,
        "seconds": length and round(length.seconds, 2),
        "share": length and round(length.share, 4),
        "most_share": round(MOST_SHARE, 4),
        "fits": advice.fits,
        "shape": advice.shape,
        "sentence": advice.sentence,
        "nearest": near and {"shape": near.shape, "template": near.template, "desk": near.desk and asdict(near.desk)},
    }


def _forbidden(refusal: str) -> JSONResponse:
    return JSONResponse({"error": refusal}, FORBIDDEN, headers=NOT_KEPT)


def _check_known(values: Mapping[str, Any], *names: str) -> None:
    for name in values:
        if name not in names:
            raise InvalidInput(f"Unknown field {name[:40]!r}; known are {', '.join(names)}.")


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidInput(f"{name!r} must be a text.")
    return value or ""
