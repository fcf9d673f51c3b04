"""Serving: settings become an engine, a page and a running server.

In: `Settings`. Out: a server that runs until it is stopped, or until the engine dies (exit code 70, for a supervisor).
Must not know: how calls work.
"""

from __future__ import annotations

import errno
import importlib
import logging
import os
import socket
import threading
import time
from pathlib import Path

import gradio as gr
from starlette.middleware import Middleware

from personaplex_app.assemble import PACKAGED, RANDOM, build_stepper, pick_checkpoint
from personaplex_app.engine.echo import EchoStepper
from personaplex_app.engine.facade import Engine
from personaplex_app.engine.ports import Stepper
from personaplex_app.errors import InvalidInput
from personaplex_app.personas import load_personas
from personaplex_app.settings import Settings
from personaplex_app.web.calls import Calls
from personaplex_app.web.catalogue import (
    ECHO_NOTICE,
    RANDOM_NOTICE,
    REAL_NOTICE,
    TOY_NOTICE,
    Catalogue,
)
from personaplex_app.web.own_origin import OwnOriginOnly
from personaplex_app.web.page import MICROPHONE, PLAIN_MICROPHONE, PageOptions, build_page
from personaplex_app.web.peers import use_clear_encoder, use_small_jitter_buffer

log = logging.getLogger(__name__)

PERSONAS = Path(__file__).parents[2] / "personas"
DEMO_PERSONAS = Path(__file__).parents[1] / "checkpoints" / "demo" / "personas"
FATAL_EXIT_CODE = 70
LAST_WORDS_SECONDS = 2.0
MAX_UPLOAD_BYTES = 1 << 20


def make_stepper(settings: Settings) -> tuple[Stepper, Catalogue]:
    """The stepper that the settings name, and what the page says of it."""
    if settings.engine == "echo":
        return EchoStepper(settings.model.slots), Catalogue(tuple(load_personas(PERSONAS)), (), notice=ECHO_NOTICE)
    checkpoint = pick_checkpoint(settings.model)
    stepper = build_stepper(settings.model, report=log.info)
    personas = load_personas(DEMO_PERSONAS if checkpoint == PACKAGED[0] else PERSONAS)
    notice = {PACKAGED[0]: TOY_NOTICE, PACKAGED[1]: RANDOM_NOTICE, RANDOM: RANDOM_NOTICE}
    return stepper, Catalogue(
        personas=tuple(personas),
        voices=tuple(stepper.voice_names),
        sampling=stepper.config.sampling,
        notice=notice.get(checkpoint, REAL_NOTICE),
    )


def exit_soon(sentence: str) -> None:
    """The engine is dead: those who talk are told, then the process ends for its supervisor to start it anew."""
    log.critical("%s", sentence)

    def leave() -> None:
        time.sleep(LAST_WORDS_SECONDS)
        os._exit(FATAL_EXIT_CODE)

    threading.Thread(target=leave, name="exit", daemon=True).start()


def launch(page: gr.Blocks, settings: Settings) -> None:
    """Serves on the settings' address until interrupted; raises InvalidInput where that is taken."""
    _check_address(settings.host, settings.port)
    page.launch(
        server_name=settings.host,
        server_port=settings.port or None,
        auth=settings.auth,
        share=settings.share,
        ssr_mode=False,
        show_api=False,
        quiet=False,
        max_file_size=MAX_UPLOAD_BYTES,
        enable_monitoring=False,
        app_kwargs={"middleware": [Middleware(OwnOriginOnly)], "docs_url": None, "openapi_url": None},
    )


def _check_address(host: str, port: int) -> None:
    """Tries to listen, since gradio answers with a traceback where it cannot; raises InvalidInput in words."""
    if ":" in host:
        raise InvalidInput(f"--host must be a name or an IPv4 address, not {host}.")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise InvalidInput(f"Port {port} on {host} is taken; choose another with --port.") from None
            raise InvalidInput(f"Cannot listen on {host}, port {port}: {error.strerror or error}.") from None


def serve(settings: Settings) -> None:
    """Assembles and serves until interrupted; raises InvalidInput for what cannot be used."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    importlib.import_module("pandas")  # gradio's queue would import it in the first call: two seconds of broken sound
    use_small_jitter_buffer()
    use_clear_encoder()
    stepper, catalogue = make_stepper(settings)
    ice = list(settings.ice)
    with Engine(stepper, on_fatal=exit_soon) as engine:
        microphone = PLAIN_MICROPHONE if settings.plain_microphone else MICROPHONE
        page = build_page(engine, catalogue, Calls(), PageOptions(ice, ice, microphone))
        launch(page, settings)
