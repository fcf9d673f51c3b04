"""A planned stepper as it is put together: rehearsed for talks, bounded, described; and what takes over where it fails.

The fast stepper needs a GPU; here moshi's modules stand in for it.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from personaplex_app import assemble, layouts, sources
from personaplex_app.cards import GIB, fresh_card
from personaplex_app.errors import InvalidInput, ServerFault
from personaplex_app.layouts import Setting
from personaplex_app.model.config import CheckpointConfig
from personaplex_app.model.fast import stepper as fast_stepper
from personaplex_app.model.sizes import model_sizes
from personaplex_app.model.stepper import SpeechStepper
from personaplex_app.out_of_memory import CODE
from personaplex_app.plan_costs import Layout
from personaplex_app.planner import Plan, Wishes, make_plan
from personaplex_app.settings import EngineChoice

PLAIN = Layout("bfloat16", "model", 2, plain=True)


class StandIn(SpeechStepper):
    """The fast stepper's place; `failure` is raised while it is made."""

    failure: Exception | type[Exception] | None = None

    def __init__(self, weights: Any, codec: Any, tokenizer: Any, config: Any, voices: Any, cache: Any, _: Any) -> None:
        if self.failure is not None:
            raise self.failure
        super().__init__(weights, codec, tokenizer, config, voices)
        self.cache = cache


@pytest.fixture
def plan() -> Plan:
    made = make_plan(fresh_card("RTX 4090"), model_sizes(CheckpointConfig()), Wishes(slots=3, kv_cache="int8"))
    return replace(made, prompt_bytes=12345)


@pytest.fixture(autouse=True)
def planned(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> Iterator[Setting]:
    """Whatever is built is built by this plan, on the CPU."""
    setting = Setting(3, torch.float32, cache=torch.int8, fast=True, plan=plan)
    plain = replace(setting, slots=2, cache=None, fast=False, plan=replace(plan, layout=PLAIN))
    monkeypatch.setattr(assemble, "settle", lambda *_, broken=False: plain if broken else setting)
    monkeypatch.setattr(fast_stepper, "FastStepper", StandIn)
    monkeypatch.setattr(assemble, "_fast_codec", lambda source, setting, device: source.codec(device, setting.slots))
    monkeypatch.setattr(StandIn, "failure", None)
    monkeypatch.setattr("personaplex_app.model.rehearsal.rehearse", lambda stepper: 31.4)
    yield setting


def _build(cache: Path, **choice: Any) -> tuple[SpeechStepper, list[str]]:
    lines: list[str] = []
    return assemble.build_stepper(EngineChoice("mini", cache, device="cpu", **choice), lines.append), lines


def test_a_talk_s_stepper_is_planned_rehearsed_and_described(tmp_path: Path, plan: Plan) -> None:
    stepper, lines = _build(tmp_path)
    assert isinstance(stepper, StandIn) and stepper.slots == 3 and stepper.cache == torch.int8
    assert stepper.plan is plan and stepper.language.prompts._most_bytes == 12345  # type: ignore[attr-defined]
    assert stepper.summary.endswith("with every line taken and every window full a frame takes 31.4 ms of 80.")
    said = f"{stepper.summary} The plan said {plan.frame_ms:.0f} ms."
    assert lines == [f"The plan: {plan.words}", said]
    assert stepper.runs_as is not None and (stepper.runs_as.past, stepper.runs_as.where) == ("int8", "CPU")


@pytest.mark.parametrize("purpose", ["render", "bench"])
def test_nothing_else_is_rehearsed(tmp_path: Path, plan: Plan, purpose: str) -> None:
    stepper, lines = _build(tmp_path, purpose=purpose)
    assert stepper.plan is plan and stepper.summary == "" and lines == [f"The plan: {plan.words}"]


def test_a_rehearsal_that_lacks_memory_names_the_next_smaller_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_out(stepper: object) -> float:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 32.00 MiB")

    monkeypatch.setattr("personaplex_app.model.rehearsal.rehearse", run_out)
    with pytest.raises(ServerFault) as told:
        _build(tmp_path)
    assert told.value.code == CODE and told.value.sentence.startswith(
        "The memory ran out while every line was tried with a full window. Start with --slots 2, "
    )


@pytest.mark.parametrize(
    "failure",
    [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("CUDA error: out of memory")],
    ids=["the allocator's", "the driver's"],
)
def test_lack_of_memory_is_no_reason_for_the_plain_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    monkeypatch.setattr(StandIn, "failure", failure)
    with pytest.raises(ServerFault, match=r"The memory ran out while the model was loaded\. Start with --slots 2, "):
        _build(tmp_path)


def test_where_the_kernels_fail_the_plain_engine_is_planned_anew_and_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StandIn, "failure", ImportError("no triton"))
    stepper, lines = _build(tmp_path)
    assert type(stepper) is SpeechStepper and stepper.slots == 2
    assert stepper.plan is not None and stepper.plan.layout == PLAIN
    remark = "The fast engine cannot run here (ImportError); the plain one runs as bfloat16, 2 lines."
    assert stepper.remark == lines[1] == remark and lines[2] == f"The plan: {stepper.plan.words}"
    assert "bfloat16, 2 lines on RTX 4090: with every line taken" in stepper.summary
    assert any(words in stepper.summary for words in (" ms of 80.", " ms, more than the 80 ")), "whatever it measured"


def test_where_the_kernels_fail_nothing_of_theirs_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain plan counts what is free then."""
    alive: list[Any] = []
    held: list[bool] = []
    load = assemble._weights

    def weights(*arguments: Any) -> Any:
        made = load(*arguments)
        alive.append(weakref.ref(made.temporal))
        return made

    monkeypatch.setattr(assemble, "_weights", weights)
    monkeypatch.setattr(StandIn, "failure", ValueError)  # an instance here would keep its traceback
    settle = assemble.settle

    def settled(*arguments: Any, broken: bool = False) -> Setting:
        if broken:
            held.append(alive[0]() is not None)
        return settle(*arguments, broken=broken)

    monkeypatch.setattr(assemble, "settle", settled)
    monkeypatch.setattr(assemble.log, "warning", lambda *_, **__: None)  # pytest would keep the traceback
    _build(tmp_path)
    assert held == [False] and len(alive) == 2


@pytest.mark.parametrize(
    ("choice", "asked", "instead"),
    [
        ({"precision": "int8"}, "--precision int8 needs it", "--precision bfloat16"),
        ({"kv_cache": "int8"}, "--kv-cache int8 needs it", "--kv-cache model"),
        ({"precision": "int4", "slots": 12}, "--precision int4 needs it", "--slots 4"),
    ],
)
def test_what_only_the_kernels_can_is_refused_where_they_fail_with_what_fits(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    planned: Setting,
    choice: dict[str, Any],
    asked: str,
    instead: str,
) -> None:
    _fail_on_a_4090(monkeypatch, planned)
    with pytest.raises(InvalidInput) as refused:
        _build(tmp_path, **choice)
    assert asked in refused.value.sentence and "`python -m personaplex_app doctor` says what" in refused.value.sentence
    assert instead in refused.value.sentence.partition("start with ")[2]


def test_lines_that_only_the_kernels_carry_are_refused_with_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planned: Setting
) -> None:
    _fail_on_a_4090(monkeypatch, planned)
    with pytest.raises(InvalidInput, match=r"and the plain one cannot take over: PersonaPlex-7B as .* GiB") as refused:
        _build(tmp_path, slots=12)
    assert "What works here: --slots " in refused.value.sentence and refused.value.code == "does_not_fit"


def _fail_on_a_4090(monkeypatch: pytest.MonkeyPatch, planned: Setting) -> None:
    """The kernels fail; what is planned without them is planned for the released model on an RTX 4090."""

    def settled(choice: Any, name: str, config: Any, device: Any, *, broken: bool = False) -> Setting:
        if not broken:
            return planned
        return layouts.settle(choice, "hub", CheckpointConfig(), torch.device("cuda"), broken=True)

    monkeypatch.setattr(layouts, "read_card", lambda device, limit: fresh_card("RTX 4090"))
    monkeypatch.setattr(assemble, "settle", settled)
    monkeypatch.setattr(StandIn, "failure", ImportError("no triton"))


@pytest.mark.parametrize(
    ("choice", "card", "said"),
    [
        ({"device": "cpu", "precision": "int8"}, None, "--precision int8 needs a CUDA GPU"),
        ({"device": "cpu"}, None, "of host memory"),
        ({"device": "cuda"}, "T4", "compute capability 7.5"),
        ({"device": "cuda"}, "RTX 4060", "7.1 GiB free"),
    ],
)
def test_a_refusal_is_heard_before_the_hub_s_files_are_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, choice: dict[str, Any], card: str | None, said: str
) -> None:
    def fetch(*_: Any) -> Path:
        raise AssertionError("nothing may be fetched")

    monkeypatch.setattr(sources, "fetch_checkpoint", fetch)
    monkeypatch.setattr(assemble, "settle", layouts.settle)
    monkeypatch.setattr(layouts, "available_bytes", lambda: GIB)
    if card is not None:
        monkeypatch.setattr(assemble, "pick_device", lambda name: torch.device("cuda"))
        monkeypatch.setattr(layouts, "read_card", lambda device, limit: fresh_card(card))
    with pytest.raises(InvalidInput) as refused:
        assemble.build_stepper(EngineChoice("hub", tmp_path, token="hf_any", **choice))
    assert said in refused.value.sentence


def test_a_plain_engine_that_was_wished_for_is_planned_and_measured_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planned: Setting
) -> None:
    monkeypatch.setattr(assemble, "settle", lambda *_: replace(planned, fast=False))
    stepper, lines = _build(tmp_path)
    assert type(stepper) is SpeechStepper and stepper.plan is planned.plan
    assert "3 lines" in stepper.summary and len(lines) == 2


def test_layers_that_stream_are_said_with_their_true_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planned: Setting, mini_checkpoint: Any
) -> None:
    from personaplex_app.model.offload_plan import gpu_weight_bytes

    budget = gpu_weight_bytes(mini_checkpoint.config.language, 4, 0)
    monkeypatch.setattr(assemble, "settle", lambda *_: Setting(1, torch.float32, budget_bytes=budget))
    stepper, lines = _build(tmp_path)
    assert "3 of 3 layers stream from host memory: a frame takes" in stepper.summary and lines == [stepper.summary]
