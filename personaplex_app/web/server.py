"""Serving: settings become an engine, a page and a running server.

In: `Settings`, an entrance that listens already. Out: a server that runs until a signal has emptied it (exit code 0),
or until the engine dies (exit code 70, for a supervisor). Must not know: how calls work.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

from gradio import http_server
from starlette.routing import BaseRoute

from personaplex_app.assemble import PACKAGED, build_stepper, pick_checkpoint
from personaplex_app.controls import Choices
from personaplex_app.engine.echo import EchoStepper
from personaplex_app.engine.facade import Engine
from personaplex_app.engine.ports import Stepper
from personaplex_app.metrics import Metrics
from personaplex_app.personas import load_personas
from personaplex_app.preview_shelf import PreviewShelf
from personaplex_app.preview_sounds import VERSION
from personaplex_app.settings import LOOPBACK, Settings
from personaplex_app.web.catalogue import (
    ECHO_NOTICE,
    Catalogue,
    notice_of,
    preview_note_of,
    speed_words,
)
from personaplex_app.web.drain import serve_until_told, until_told
from personaplex_app.web.front import Front, build_front
from personaplex_app.web.health import Health, health_routes
from personaplex_app.web.listening import ThreadedServer
from personaplex_app.web.peers import use_clear_encoder, use_quick_channel, use_small_jitter_buffer
from personaplex_app.web.starting import Entrance, ready_route
from personaplex_app.web.voice_previews import VoicePreviews

log = logging.getLogger(__name__)

PERSONAS = Path(__file__).parents[2] / "personas"
DEMO_PERSONAS = Path(__file__).parents[1] / "checkpoints" / "demo" / "personas"
FATAL_EXIT_CODE = 70
LAST_WORDS_SECONDS = 2.0
CLOSE_SECONDS = 15.0  # for all that has to be closed; what is not by then is left to the system
MAX_UPLOAD_BYTES = 1 << 20
ANYWHERE = "0.0.0.0"


def make_stepper(settings: Settings, report: Callable[[str], None]) -> tuple[Stepper, Catalogue]:
    """The stepper that the settings name, and what the page says of it."""
    if settings.engine == "echo":
        return EchoStepper(settings.model.slots or 1), Catalogue(tuple(load_personas(PERSONAS)), (), notice=ECHO_NOTICE)
    checkpoint = pick_checkpoint(settings.model)
    stepper = build_stepper(settings.model, report)
    personas = load_personas(DEMO_PERSONAS if checkpoint == PACKAGED[0] else PERSONAS)
    notice = notice_of(stepper.config.random, stepper.config.trained_positions)
    return stepper, Catalogue(
        personas=tuple(personas),
        voices=tuple(stepper.voice_names),
        sampling=stepper.config.sampling,
        notice=f"{notice} {stepper.remark}".strip(),
    )


def prompts_of(catalogue: Catalogue) -> list[tuple[str, Choices]]:
    """What a talk with each persona begins with, by its id: exactly what the page asks for."""
    return [
        (one.id, Choices(one.prompt, catalogue.voice_of(one), one.sampling_over(catalogue.sampling), 0))
        for one in catalogue.personas
    ]


def open_previews(engine: Engine, catalogue: Catalogue, settings: Settings, metrics: Metrics) -> VoicePreviews:
    """Previews of the voices, kept in the cache directory for this checkpoint and this way to make them."""
    identity = getattr(engine.stepper, "identity", "")
    directory = settings.model.cache / "previews" / f"{identity}-{VERSION}" if identity else None
    config = getattr(engine.stepper, "config", None)  # an echo has none
    note = preview_note_of(config.random, config.trained_positions) if config is not None else ""
    return VoicePreviews(engine, PreviewShelf(directory), catalogue.sampling, note, metrics.preview_made)


def import_early() -> None:
    """What would be imported in the first call or for the first clip: seconds of broken sound, a ticket too late."""
    os.environ["MPLBACKEND"] = "agg"  # else gradio, which asks for the backend, has matplotlib look for a screen
    importlib.import_module("pandas")  # gradio's queue
    importlib.import_module("pyloudnorm")  # voices
    with contextlib.suppress(ModuleNotFoundError):  # gradio looks for it, and the app does without
        importlib.import_module("matplotlib")


def exit_soon(sentence: str) -> None:
    """The engine is dead: those who talk are told, then the process ends for its supervisor to start it anew."""
    log.critical("%s", sentence)

    def leave() -> None:
        time.sleep(LAST_WORDS_SECONDS)
        os._exit(FATAL_EXIT_CODE)

    threading.Thread(target=leave, name="exit", daemon=True).start()


def launch(
    front: Front, settings: Settings, more_routes: list[BaseRoute], entrance: Entrance
) -> asyncio.AbstractEventLoop:
    """Begins to serve where the entrance listens; returns the event loop that the server runs on, in its own thread.

    Routes of ours stand before gradio's and need no login but what they ask for themselves.
    """
    entrance.close_soon()
    with _served_at(entrance):
        front.page.launch(
            server_name=settings.host,
            auth=settings.auth,
            i18n=front.words,
            share=settings.share,
            ssr_mode=False,
            show_api=False,
            quiet=False,
            max_file_size=MAX_UPLOAD_BYTES,
            enable_monitoring=False,
            prevent_thread_lock=True,
            app_kwargs={
                "middleware": front.middleware,
                "routes": [*more_routes, *front.routes],
                "lifespan": lambda app: _life(front),
                "docs_url": None,
                "openapi_url": None,
            },
        )
    assert front.page.server.loop is not None, "gradio starts the application before it returns"
    return front.page.server.loop


@contextlib.contextmanager
def _served_at(entrance: Entrance) -> Iterator[None]:
    """While inside, gradio, which would take an address of its own, starts its servers at the entrance."""

    def start(app: Any, server_name: str, **options: Any) -> tuple[str, int, str, ThreadedServer]:
        listening = entrance.hand_over()
        host, port = listening.getsockname()[:2]
        server = ThreadedServer(app, listening, "event-loop")
        server.start()
        return server_name, port, f"http://{LOOPBACK if host == ANYWHERE else host}:{port}/", server

    before, http_server.start_server = http_server.start_server, start
    try:
        yield
    finally:
        http_server.start_server = before


@contextlib.asynccontextmanager
async def _life(front: Front) -> AsyncIterator[None]:
    """What lives on the server's event loop and has to be closed there."""
    front.minter.start()
    front.previews.start()
    yield
    await front.previews.close()
    await front.minter.stop()
    await front.desk.close()


def serve(settings: Settings, entrance: Entrance) -> None:
    """Assembles and serves until a signal has emptied the house; raises InvalidInput for what cannot be used."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["FORWARDED_ALLOW_IPS"] = ""  # uvicorn would believe any program of this machine; `doors` decides that
    import_early()
    use_small_jitter_buffer()
    use_clear_encoder()
    use_quick_channel()
    entrance.report("Loading the model ...")
    stepper, catalogue = make_stepper(settings, entrance.report)
    metrics = Metrics()
    engine = Engine(stepper, on_fatal=exit_soon, parking_bytes=settings.parking_bytes, on_tick=metrics.tick)
    engine.readying.wanted = prompts_of(catalogue)
    entrance.report("Measuring how long a frame takes ...")
    speed = speed_words(engine.measure())
    log.info("%s", speed)
    if settings.engine == "model":  # an echo takes no time worth telling
        catalogue = catalogue.saying(getattr(stepper, "summary", "") or speed)
    entrance.report("Opening the page ...")
    with engine:
        front = build_front(engine, catalogue, settings, metrics, open_previews(engine, catalogue, settings, metrics))
        health = Health(engine, front.desk)
        loop = launch(front, settings, [*health_routes(health, metrics), ready_route()], entrance)
        health.started = True
        entrance.settle()
        serve_until_told(loop, front.desk, settings.drain_seconds)
        _close(front, engine, loop)


def _close(front: Front, engine: Engine, loop: asyncio.AbstractEventLoop) -> None:
    """Ends the talks that are left, lets them hear of it, then closes the server."""
    _end_within(CLOSE_SECONDS)
    engine.stop()
    told = asyncio.run_coroutine_threadsafe(until_told(front.desk, LAST_WORDS_SECONDS), loop)
    with contextlib.suppress(TimeoutError):
        told.result(LAST_WORDS_SECONDS + 1)
    front.page.close(verbose=False)


def _end_within(seconds: float) -> None:
    """A thread or a connection that does not close must not keep the process."""
    timer = threading.Timer(seconds, os._exit, (0,))
    timer.daemon = True
    timer.start()
