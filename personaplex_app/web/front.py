"""The web's parts joined: desk, doors, relays, page and routes over one engine.

In: an engine, a catalogue, settings. Out: what `server` launches. Must not know: how any part works inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gradio as gr
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute

from personaplex_app.coach import Ruler
from personaplex_app.engine.call_clock import CallLimits
from personaplex_app.engine.facade import Engine
from personaplex_app.metrics import Metrics
from personaplex_app.settings import Settings
from personaplex_app.web.catalogue import Catalogue
from personaplex_app.web.desk import FrontDesk
from personaplex_app.web.doors import Doors
from personaplex_app.web.library import Library, library_routes
from personaplex_app.web.own_origin import OwnOriginOnly
from personaplex_app.web.own_voice_routes import own_voice_routes
from personaplex_app.web.page import MICROPHONE, PLAIN_MICROPHONE, PageOptions, build_page, page_words
from personaplex_app.web.preview import PersonaPreview
from personaplex_app.web.recorded_talk import model_of
from personaplex_app.web.recording_routes import recording_routes
from personaplex_app.web.recordings import Recordings
from personaplex_app.web.routes import talk_routes
from personaplex_app.web.ruler import ruler_of, with_own_voices
from personaplex_app.web.signalling import make_call_component
from personaplex_app.web.turn import IceMinter
from personaplex_app.web.visitors import VisitorCookie, Visitors
from personaplex_app.web.voice_previews import VoicePreviews, preview_routes


@dataclass(frozen=True)
class Front:
    """What is served."""

    page: gr.Blocks
    words: gr.I18n
    desk: FrontDesk
    minter: IceMinter
    previews: VoicePreviews
    routes: list[BaseRoute]
    middleware: list[Middleware]


def build_front(
    engine: Engine, catalogue: Catalogue, settings: Settings, metrics: Metrics, previews: VoicePreviews
) -> Front:
    """Everything between the engine and the visitor."""
    call_limits = CallLimits(call_seconds=settings.call_seconds)
    recordings = Recordings(settings.recordings_bytes, settings.call_seconds)
    desk = FrontDesk(engine, metrics, call_limits=call_limits, recordings=recordings)
    visitors = Visitors(settings.network.secret)
    doors = Doors(visitors, settings.network, settings.origins)
    minter = IceMinter(settings.network, browser_ttl_seconds=int(settings.call_seconds) + 600)

    def make_call(ticket: Any, **options: Any) -> Any:
        return make_call_component(desk, doors, minter, ticket, **options)

    def measured_for(request: HTTPConnection) -> Ruler | None:
        own = {voice.name: voice.learned for voice in desk.own_voices.of(doors.visitor(request))}
        return ruler and with_own_voices(ruler, engine.stepper, own)

    ruler = ruler_of(engine.stepper)
    library = Library(catalogue, measured_for, engine.readying.of)
    microphone = PLAIN_MICROPHONE if settings.plain_microphone else MICROPHONE
    return Front(
        page=build_page(catalogue, make_call, PageOptions(microphone)),
        words=page_words(catalogue),
        desk=desk,
        minter=minter,
        previews=previews,
        routes=[
            *talk_routes(desk, doors, minter, catalogue.sampling),
            *library_routes(library, doors),
            *preview_routes(previews, doors),
            *own_voice_routes(desk, doors),
            *recording_routes(desk.recordings, doors, model_of(engine.stepper)),
        ],
        middleware=[
            Middleware(OwnOriginOnly),
            Middleware(VisitorCookie, visitors=visitors),
            Middleware(PersonaPreview, personas=catalogue.personas),
        ],
    )
