"""A thread's name is what the system shows of it."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from personaplex_app.thread_names import name_thread


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_the_system_shows_the_name() -> None:
    shown: list[str] = []

    def work() -> None:
        name_thread("a thread with a long name")
        shown.append(Path(f"/proc/self/task/{threading.get_native_id()}/comm").read_text().strip())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert shown == ["a thread with a"]


def test_where_there_is_no_proc_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("personaplex_app.thread_names.threading.get_native_id", lambda: 0)
    name_thread("x")
