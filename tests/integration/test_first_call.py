"""The first call finds everything imported: what gradio loads at its first event holds the event loop for seconds."""

from __future__ import annotations

import subprocess
import sys

from support.served import ROOT

STORY = """
import sys
from personaplex_app.web.server import import_early
import_early()
import gradio.queueing
from gradio.utils import MatplotlibBackendMananger
before = set(sys.modules)
with MatplotlibBackendMananger():  # around every event's function
    pass
late = sorted(name for name in set(sys.modules) - before)
assert "pandas" in before and "matplotlib" in before
assert not late, late
"""


def test_gradio_s_first_event_imports_nothing_more() -> None:
    done = subprocess.run([sys.executable, "-c", STORY], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


WITHOUT = """
import sys
sys.modules["matplotlib"] = None  # requirements.txt does not name it
from personaplex_app.web.server import import_early
import_early()
assert "pandas" in sys.modules
"""


def test_the_app_starts_without_what_only_the_checks_install() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
