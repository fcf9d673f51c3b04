"""The fast language step equals the plain one, token for token; its kernels run under Triton's interpreter here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch

from personaplex_app.model.config import LanguageConfig
from personaplex_app.model.fast.blocks import BLOCK_POSITIONS
from personaplex_app.model.fast.language import FastLanguageModel
from personaplex_app.model.fast.prompt_states import PromptState, PromptStates
from personaplex_app.model.loading import random_weights

TESTS = Path(__file__).parents[1]
LONGEST_SECONDS = 240


def test_cases_under_the_interpreter() -> None:
    """All of `support/fast_language_cases.py`; what fails there is told here."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/support/fast_language_cases.py"]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run(
        command, cwd=TESTS.parent, env=environment, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def test_going_ahead_makes_room_up_to_the_ring_s_end_and_moves_the_host_s_positions() -> None:
    config = LanguageConfig(
        dim=32, layers=1, heads=2, hidden=24, context=3 * BLOCK_POSITIONS - 10, text_card=40, audio_card=30,
        depth_dim=16, depth_layers=1, depth_heads=2, depth_hidden=12,
    )  # fmt: skip
    weights = random_weights(config, torch.device("cpu"), torch.float32)
    model = FastLanguageModel(weights, 2, recorded=False)
    model.state.position_host[:2] = [BLOCK_POSITIONS - 3, 5]
    model.go_ahead([True, False], 7)
    assert model.state.position_host[:2] == [BLOCK_POSITIONS + 4, 5]
    assert [int(count) for count in (model.past.table != 0).sum(1)[:2]] == [2, 0]
    model.go_ahead([True, False], 3 * BLOCK_POSITIONS)
    assert int((model.past.table[0] != 0).sum()) == 3, "the ring goes on from its beginning"


def _state(floats: int) -> PromptState:
    return PromptState([torch.zeros(floats - 2)], torch.zeros(1), torch.zeros(1))


def test_prompt_states_are_bounded_and_the_longest_unused_goes_first() -> None:
    states = PromptStates(most_bytes=4 * 30)
    for name in ("a", "b", "c"):
        states.keep(name, _state(10))
    assert states.find("a") is not None and states.bytes == 4 * 30
    states.keep("d", _state(10))
    assert states.find("b") is None and states.find("a") and states.find("c") and states.find("d")
    states.keep("too large", _state(31))
    assert states.find("too large") is None and len(states) == 3


def test_states_that_nobody_used_yet_push_nothing_out_and_go_first() -> None:
    states = PromptStates(most_bytes=4 * 40)
    states.keep("visitor", _state(10))
    for name in ("best", "good", "fair", "no room"):
        states.keep_unused(name, _state(10))
    assert [name in states for name in ("visitor", "best", "good", "fair", "no room")] == [True] * 4 + [False]
    assert states.has_room(0) and not states.has_room(1)
    for kept, name in enumerate(("one", "two"), start=1):
        states.keep(name, _state(10))
        assert [one in states for one in ("fair", "good", "best", "visitor")] == [False] * kept + [True] * (4 - kept)
    assert states.find("best") is not None, "used now, and as good as any visitor's"
    states.keep_unused("best", _state(10))
    for name in ("three", "four"):
        states.keep(name, _state(10))
    assert "best" in states and "visitor" not in states and "one" not in states


def test_a_prompt_state_that_is_kept_twice_counts_once() -> None:
    states = PromptStates(most_bytes=1000)
    states.keep("a", _state(10))
    states.keep("a", _state(20))
    assert states.bytes == 80 and len(states) == 1
    states.forget("a")
    states.forget("a")
    assert states.bytes == 0
