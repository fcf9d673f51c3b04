"""The page: choose a persona, press one button, talk; expert controls folded away.

In: an engine and a catalogue. Out: `gr.Blocks`. Must not know: FastRTC (that is `handler.py`), models.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import gradio as gr

from personaplex_app.controls import MAX_PENALTY, MAX_TEMPERATURE
from personaplex_app.engine.facade import Engine
from personaplex_app.engine.slots import full_sentence
from personaplex_app.personas import Persona
from personaplex_app.web.call_view import CallView
from personaplex_app.web.calls import Calls
from personaplex_app.web.catalogue import Catalogue
from personaplex_app.web.handler import connect_stream, make_call_component

MICROPHONE = {"echoCancellation": True, "noiseSuppression": True, "autoGainControl": True, "channelCount": 1}
PLAIN_MICROPHONE = {"echoCancellation": False, "noiseSuppression": False, "autoGainControl": False, "channelCount": 1}
STATUS_SECONDS = 1.0
CSS = """
.gradio-container { max-width: 1040px !important; margin: 0 auto; }
#call { min-height: 150px; }
#status textarea { font-weight: 600; }
@media (max-width: 700px) { #talk { order: -1; } }
"""


@dataclass(frozen=True)
class PageOptions:
    """What differs from place to place.

    Attributes:
        browser_ice, server_ice: ICE servers of the two ends. microphone: constraints of the browser's track.
    """

    browser_ice: list[dict[str, Any]] = field(default_factory=list)
    server_ice: list[dict[str, Any]] = field(default_factory=list)
    microphone: dict[str, Any] = field(default_factory=lambda: dict(MICROPHONE))


def build_page(engine: Engine, catalogue: Catalogue, calls: Calls, options: PageOptions) -> gr.Blocks:
    """The whole page, wired to the engine."""
    with _blocks() as page:
        gr.Markdown("# personaplex_app\nTalk with a persona, in real time, both at once.")
        gr.Markdown(catalogue.notice, elem_id="notice")
        with gr.Row():
            with gr.Column(scale=3):
                fields = _choices_column(catalogue)
            with gr.Column(scale=2, elem_id="talk"):
                call = make_call_component(engine, calls, **_call_options(options))
                shown = _call_column()
        connect_stream(call, engine, calls, inputs=fields, outputs=shown)
        _show_when_idle(page, call, shown, engine, calls)
    return page


def _show_when_idle(page: gr.Blocks, call: Any, shown: list[Any], engine: Engine, calls: Calls) -> None:
    """Keeps the boxes true while no call runs: at once when the page opens, then every second."""
    for event in (page.load, gr.Timer(STATUS_SECONDS).tick):
        event(
            lambda value: _idle_words(value, engine, calls),
            inputs=[call],
            outputs=shown,
            show_progress="hidden",
            concurrency_limit=None,
            queue=False,
        )


def _blocks() -> gr.Blocks:
    theme = gr.themes.Soft(font=["system-ui", "sans-serif"], font_mono=["monospace"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return gr.Blocks(title="personaplex_app", theme=theme, css=CSS, analytics_enabled=False)


def _call_options(options: PageOptions) -> dict[str, Any]:
    return {
        "label": "Your call",
        "elem_id": "call",
        "mode": "send-receive",
        "modality": "audio",
        "full_screen": False,
        "track_constraints": options.microphone,
        "rtc_configuration": {"iceServers": options.browser_ice},
        "server_rtc_configuration": {"iceServers": options.server_ice},
        "button_labels": {"start": "Talk", "waiting": "Connecting ...", "stop": "Stop"},
    }


def _choices_column(catalogue: Catalogue) -> list[Any]:
    """Persona, prompt, voice and sampling; returns the fields in the order of `form.FIELDS`."""
    first = catalogue.personas[0]
    persona = gr.Radio(catalogue.persona_choices, value=first.id, label="Persona", elem_id="persona")
    about = gr.Markdown(_about(first), elem_id="about")
    prompt = gr.Textbox(first.prompt, label="Prompt", lines=4, max_lines=10, elem_id="prompt")
    voice = gr.Dropdown(catalogue.voice_choices, value=catalogue.voice_of(first), label="Voice", elem_id="voice")
    with gr.Accordion("Sampling (moves during the call)", open=False):
        sliders = _sliders(catalogue, first)
        seed = gr.Textbox("", label="Seed (empty: a fresh one each call)", elem_id="seed", max_lines=1)
    chosen = [about, prompt, voice, *sliders]
    persona.change(
        lambda persona_id: _fill(catalogue, catalogue.persona(persona_id)),
        inputs=[persona],
        outputs=chosen,
        show_progress="hidden",
        concurrency_limit=None,
    )
    return [prompt, voice, *sliders, seed]


def _sliders(catalogue: Catalogue, persona: Persona) -> list[Any]:
    start = persona.sampling_over(catalogue.sampling)
    return [
        gr.Slider(0, MAX_TEMPERATURE, start.audio_temperature, step=0.05, label="Audio temperature", elem_id="ta"),
        gr.Slider(0, MAX_TEMPERATURE, start.text_temperature, step=0.05, label="Text temperature", elem_id="tt"),
        gr.Slider(0, 2048, start.audio_top_k, step=1, label="Audio top-k (0: no limit)", elem_id="ka"),
        gr.Slider(0, 2048, start.text_top_k, step=1, label="Text top-k (0: no limit)", elem_id="kt"),
        gr.Slider(1, MAX_PENALTY, start.repetition_penalty, step=0.05, label="Repetition penalty", elem_id="rp"),
    ]


def _fill(catalogue: Catalogue, persona: Persona) -> list[Any]:
    sampling = persona.sampling_over(catalogue.sampling)
    return [
        _about(persona),
        persona.prompt,
        catalogue.voice_of(persona),
        sampling.audio_temperature,
        sampling.text_temperature,
        sampling.audio_top_k,
        sampling.text_top_k,
        sampling.repetition_penalty,
    ]


def _about(persona: Persona) -> str:
    asks = "\n".join(f"- {question}" for question in persona.ask)
    return f"{persona.pitch}\n\nThings to ask:\n{asks}"


def _call_column() -> list[Any]:
    """Transcript, status and what is applied, in the order in which the handler sends them."""
    status = gr.Textbox("Ready.", label="Status", lines=2, interactive=False, elem_id="status")
    transcript = gr.Textbox(
        "", label="The persona says", lines=8, max_lines=14, interactive=False, elem_id="transcript"
    )
    applied = gr.Textbox("", label="Applied", lines=4, interactive=False, autoscroll=False, elem_id="applied")
    return [transcript, status, applied]


def _idle_words(value: Any, engine: Engine, calls: Calls) -> tuple[Any, Any, Any]:
    """What the boxes say while no call of this page runs: why the last one ended, and whether a line is free."""
    view = calls.view(getattr(value, "webrtc_id", value) or "")
    if view is not None and not view.over:
        return gr.skip(), gr.skip(), gr.skip()
    lines = _line_words(engine)
    if view is None:
        return gr.skip(), lines, gr.skip()
    return view.transcript, _joined(view, lines), view.applied


def _joined(view: CallView, lines: str) -> str:
    return view.status if view.status == lines else f"{view.status}\n{lines}"


def _line_words(engine: Engine) -> str:
    status = engine.status
    if status.failed:
        return status.failed
    if not status.free:
        return full_sentence(status.slots)
    return f"Ready: {status.free} of {status.slots} lines free."
