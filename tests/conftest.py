"""Fixtures that many tests share: the miniature checkpoint, the golden data, one thread, no leaked threads."""

import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import personaplex_app.model  # first: sets environment variables that torch reads when it is imported

# isort: split
import numpy as np
import pytest
import torch
import tqdm

from personaplex_app.model.checkpoint import Checkpoint, open_checkpoint
from personaplex_app.model.loading import Weights, load_weights
from personaplex_app.settings import CACHE_VARIABLE

FIXTURES = Path(__file__).parent / "fixtures"
CHECKPOINTS = Path(personaplex_app.model.__file__).parents[1] / "checkpoints"
GRACE_SECONDS = 3.0
TIMED_ATTEMPTS = 2


def pytest_configure(config: pytest.Config) -> None:
    """sentencepiece's C types warn while they are made, even at exit; as an error that crashes the interpreter."""
    config.addinivalue_line("filterwarnings", "ignore:builtin type:DeprecationWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is marked `timed` may fail once where nothing runs beside it: the machine may be busy with something else.

    Beside other tests (xdist) it fails at once, and `scripts/check` asks it again alone.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    for item in items:
        if item.get_closest_marker("timed") is not None:
            item.add_marker(pytest.mark.flaky(reruns=TIMED_ATTEMPTS - 1))


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Arithmetic on one thread: a shared machine makes two of them wait for each other."""
    torch.set_num_threads(1)
    tqdm.tqdm.monitor_interval = 0  # its monitor thread would outlive the test that draws the first progress bar


@pytest.fixture(scope="session", autouse=True)
def cache_outside_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Conversions of the whole run go to a temporary directory."""
    directory = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(directory))
        yield directory


@pytest.fixture(autouse=True)
def no_leaked_threads() -> Iterator[None]:
    """Fails a test that leaves threads behind which it started."""
    before = set(threading.enumerate())
    yield
    until = time.monotonic() + GRACE_SECONDS
    while (left := set(threading.enumerate()) - before) and time.monotonic() < until:
        time.sleep(0.02)
    assert not left, f"threads outlive the test: {sorted(thread.name for thread in left)}"


class _LostTasks(logging.Handler):
    """Collects what asyncio says of tasks that nobody awaited to their end."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if "was destroyed but it is pending" in message or "was never retrieved" in message:
            self.messages.append(message)


@pytest.fixture(autouse=True)
def no_leaked_tasks() -> Iterator[None]:
    """Fails a test whose event loop ends with tasks still pending, or with errors that nobody looked at."""
    lost = _LostTasks()
    logger = logging.getLogger("asyncio")
    logger.addHandler(lost)
    yield
    logger.removeHandler(lost)
    assert not lost.messages, lost.messages


@pytest.fixture(scope="session")
def mini_directory() -> Path:
    """The random miniature's files."""
    return CHECKPOINTS / "mini"


@pytest.fixture(scope="session")
def mini_checkpoint(mini_directory: Path) -> Checkpoint:
    """The random miniature, checked."""
    return open_checkpoint(mini_directory)


@pytest.fixture(scope="session")
def mini_weights(mini_checkpoint: Checkpoint) -> Weights:
    """Its weights, CPU, float32; nobody writes to them."""
    return load_weights(mini_checkpoint, torch.device("cpu"), torch.float32)


@pytest.fixture(scope="session")
def reference() -> Mapping[str, np.ndarray]:
    """What the reference implementation gave: greedy, float32, on one CPU thread."""
    with np.load(FIXTURES / "reference.npz") as file:
        return dict(file)


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """The folder with the recordings."""
    return FIXTURES
