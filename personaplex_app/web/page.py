"""The page: choose a persona, press one button, talk; expert controls folded away.

In: a catalogue and a maker of the call component. Out: `gr.Blocks`. What moves on it is `static/call.js`'s (the talk)
and `static/library.js`'s (personas and voices); the boxes that a talk is asked with are gradio's.
Must not know: FastRTC (that is `handler.py` and `signalling.py`), models, the desk.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.i18n import I18nData

from personaplex_app.controls import MAX_PENALTY, MAX_TEMPERATURE
from personaplex_app.personas import Persona
from personaplex_app.web.catalogue import Catalogue
from personaplex_app.web.form import FIELDS
from personaplex_app.web.languages import TAGS, table_of
from personaplex_app.web.presets import presets_over

MICROPHONE = {"echoCancellation": True, "noiseSuppression": True, "autoGainControl": True, "channelCount": 1}
PLAIN_MICROPHONE = {"echoCancellation": False, "noiseSuppression": False, "autoGainControl": False, "channelCount": 1}
STATIC = Path(__file__).parent / "static"
SCRIPTS = (
    "call",
    "library",
    "talk_bar",
    "health",
    "xray",
    "keep",
    "languages",
)  # each of them a module that begins by itself
STYLES = ("page", "library", "talk", "health", "xray", "keep", "languages")
PART = re.compile(r"\{\{part:([a-z_]+)\}\}")
TELL = """(...values) => {
  if (window.personaplex) window.personaplex.choose(values);
  else window.personaplexWaiting = values;
}"""
FEW_PERSONAS = 4  # that take less room
FILL = "() => window.personaplexFill()"
TITLE = "# personaplex_app\nTalk with a persona, in real time, both at once."
ENGLISH_ONLY = "The persona speaks and understands English only: talk to it in English."


@dataclass(frozen=True)
class PageOptions:
    """What differs from place to place.

    Attributes:
        microphone: constraints of the browser's track.
    """

    microphone: dict[str, Any] = field(default_factory=lambda: dict(MICROPHONE))


def build_page(catalogue: Catalogue, make_call: Callable[..., Any], options: PageOptions) -> gr.Blocks:
    """The whole page; `make_call(ticket_box, **options)` makes the component that carries the sound by WebRTC."""
    with _blocks(catalogue, options) as page:
        gr.HTML(_part("corner.html"), padding=False, elem_id="corner")
        gr.Markdown(_said(f"{TITLE} {ENGLISH_ONLY}"), elem_id="masthead")
        gr.Markdown(_said(catalogue.notice), elem_id="notice")
        with gr.Row(elem_id="rooms"):
            with gr.Column(scale=3, elem_id="choices"):
                fields = _choices_column(catalogue)
            with gr.Column(scale=2, elem_id="talk"):
                gr.HTML(_panel(catalogue.personas[0]), padding=False)
                ticket = gr.Textbox("", label="Ticket", elem_id="ticket")
                make_call(ticket, **_call_options(options))
                fill = gr.Button("Fill", elem_id="fill")
        for told in (page.load, *(box.change for box in fields)):
            told(fn=None, inputs=fields, js=TELL, queue=False, show_progress="hidden")
        fill.click(fn=None, outputs=fields, js=FILL, queue=False, show_progress="hidden")
    return page


def _blocks(catalogue: Catalogue, options: PageOptions) -> gr.Blocks:
    theme = gr.themes.Soft(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])
    theme.set(  # texts at 4.5 : 1 and more; the ground as it was, which `set` forgets
        background_fill_primary="*neutral_50",
        block_title_text_color="*primary_800",
        body_text_color_subdued="*neutral_600",
    )
    config = {
        "fields": FIELDS,
        "microphone": options.microphone,
        "voices": catalogue.voice_choices,
        "presets": presets_over(catalogue.sampling),
    }
    head = f"<script>{_part('language.js')}</script>"  # first: gradio and all scripts ask for its choice
    head += f"<script>window.personaplexConfig = {_in_a_script(config)};</script>"
    head += f"<style>{''.join(_part(f'{name}.css') for name in STYLES)}</style>"  # gradio's own way rewrites the rules
    head += "".join(f'<script type="module" src="talk/static/{name}.js"></script>' for name in SCRIPTS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # theme and css move to launch() in gradio 6
        return gr.Blocks(
            title="personaplex_app",
            theme=theme,
            head=head,
            analytics_enabled=False,
        )


def page_words(catalogue: Catalogue) -> gr.I18n:
    """What gradio's boxes say, in each language; for `launch`."""
    words = {tag: dict(table_of(language).parts["boxes"]) for language, tag in TAGS.items()}
    words["en"] = {english: english for english in words["ko"]}
    for language, tag in TAGS.items():
        words[tag][catalogue.notice] = table_of(language).translated(catalogue.notice)
    return gr.I18n(**words)


def _said(english: str) -> I18nData:
    """A text of gradio's that the browser shows in its language."""
    return I18nData(english)


def _part(name: str) -> str:
    """A file of the page, with the parts in it that it names."""
    text = (STATIC / name).read_text(encoding="utf-8")
    return PART.sub(lambda found: _part(f"{found[1]}.html"), text)


def _in_a_script(value: Any) -> str:
    """JSON that ends no script element."""
    return json.dumps(value).replace("<", "\\u003c")


def _panel(first: Persona) -> str:
    """The talk's panel, with the first persona in it for whom scripts come late."""
    asks = "".join(f"<li>{escape(question)}</li>" for question in first.ask)
    filled = {"title": escape(first.title), "pitch": escape(first.pitch), "asks": asks}
    panel = _part("panel.html")
    for name, text in filled.items():
        panel = panel.replace(f"{{{{{name}}}}}", text)
    return panel


def _call_options(options: PageOptions) -> dict[str, Any]:
    return {
        "label": "Your call",
        "elem_id": "call",
        "mode": "send-receive",
        "modality": "audio",
        "full_screen": False,
        "track_constraints": {**options.microphone, "personaplex": True},  # the mark that microphone.js knows it by
        "rtc_configuration": {"iceServers": []},
        "server_rtc_configuration": {"iceServers": []},
        "button_labels": {"start": "start", "waiting": "waiting", "stop": "stop"},  # read by rtc_path.js
    }


def _choices_column(catalogue: Catalogue) -> list[Any]:
    """Personas, prompt, voice and sampling; returns the fields in the order of `form.FIELDS`."""
    first = catalogue.personas[0]
    few = len(catalogue.personas) <= FEW_PERSONAS
    gr.HTML(_part("gallery.html").replace("{{many}}", "few" if few else "many"), padding=False)
    with gr.Accordion(_said("Prompt and voice"), open=False, elem_id="persona-fold"):
        prompt = gr.Textbox(first.prompt, label=_said("Prompt"), lines=4, max_lines=10, elem_id="prompt")
        gr.HTML(_part("coach.html"), padding=False)
        voices = catalogue.voice_choices
        voice = gr.Dropdown(voices, value=catalogue.voice_of(first), label=_said("Voice"), elem_id="voice")
        gr.HTML(_part("voices.html"), padding=False)
    with gr.Accordion(_said("Sampling (moves during the call)"), open=False, elem_id="sampling-fold"):
        gr.HTML(_part("presets.html"), padding=False)
        sliders = _sliders(catalogue, first)
        seed = gr.Textbox("", label=_said("Seed (empty: a fresh one each call)"), elem_id="seed", max_lines=1)
        gr.HTML(_part("seed.html"), padding=False)
    return [prompt, voice, *sliders, seed]


def _sliders(catalogue: Catalogue, persona: Persona) -> list[Any]:
    start = persona.sampling_over(catalogue.sampling)
    return [
        gr.Slider(
            0, MAX_TEMPERATURE, start.audio_temperature, step=0.05, label=_said("Audio temperature"), elem_id="ta"
        ),
        gr.Slider(0, MAX_TEMPERATURE, start.text_temperature, step=0.05, label=_said("Text temperature"), elem_id="tt"),
        gr.Slider(0, 2048, start.audio_top_k, step=1, label=_said("Audio top-k (0: no limit)"), elem_id="ka"),
        gr.Slider(0, 2048, start.text_top_k, step=1, label=_said("Text top-k (0: no limit)"), elem_id="kt"),
        gr.Slider(1, MAX_PENALTY, start.repetition_penalty, step=0.05, label=_said("Repetition penalty"), elem_id="rp"),
    ]
