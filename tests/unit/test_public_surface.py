"""The few public names, and that neither the package nor its command line pulls torch or the web in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import personaplex_app

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "moshi", "gradio", "fastapi", "fastrtc", "aiortc", "safetensors", "huggingface_hub")
PUBLIC = [
    "Choices",
    "InvalidInput",
    "NoCapacity",
    "PersonaplexError",
    "SamplingSettings",
    "ServerFault",
    "SessionEnded",
]


def test_the_public_names_are_these() -> None:
    assert personaplex_app.__all__ == PUBLIC
    assert all(getattr(personaplex_app, name).__module__.startswith("personaplex_app.") for name in PUBLIC)


def test_the_client_s_names_are_these() -> None:
    from personaplex_app import client

    events = {event.__name__ for event in client.Event.__args__}
    assert set(client.__all__) == events | {"Event", "Line", "Talk", "connect"}
    assert all(hasattr(client, name) for name in client.__all__)


@pytest.mark.parametrize(
    "module",
    [
        "personaplex_app",
        "personaplex_app.cli",
        "personaplex_app.settings",
        "personaplex_app.engine.facade",
        "personaplex_app.client",
        "personaplex_app.terminal_talk",
        "personaplex_app.evaluation.socket_caller",
    ],
)
def test_importing_it_is_light(module: str) -> None:
    script = f"import sys, {module}; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "[]", "")


def test_the_command_line_s_help_needs_no_web() -> None:
    """Where gradio and its kin are not installed, `python -m personaplex_app` still speaks."""
    script = (
        "import sys\n"
        f"for name in {HEAVY!r}: sys.modules[name] = None\n"
        "from personaplex_app.cli import main\n"
        "sys.exit(main(['--help']))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "render" in done.stdout and done.stderr == ""
