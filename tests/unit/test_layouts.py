"""A choice, a model and a device become a setting: the planner's where there is a GPU, one line where there is none."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from personaplex_app import assemble, layouts
from personaplex_app.cards import CONTEXT_BYTES, GIB, Card, figures_for, fresh_card
from personaplex_app.errors import InvalidInput
from personaplex_app.layouts import RANDOM_NAME, Setting, settle
from personaplex_app.model import card as cards_of_torch
from personaplex_app.model.config import CheckpointConfig
from personaplex_app.model.stand_in import full_stand_in, mini_stand_in
from personaplex_app.planner import TARGET_MS
from personaplex_app.settings import EngineChoice

RELEASED = CheckpointConfig()
CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.fixture(autouse=True)
def roomy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host with memory for every model here."""
    monkeypatch.setattr(layouts, "available_bytes", lambda: 64 * GIB)


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> str:
    """A 4090 with nothing on it."""
    monkeypatch.setattr(layouts, "read_card", lambda device, limit: fresh_card("RTX 4090"))
    return "RTX 4090"


def _settled(
    name: str = "hub", where: torch.device = CUDA, config: CheckpointConfig = RELEASED, **choice: Any
) -> Setting:
    return settle(EngineChoice(name, Path("cache"), **choice), name, config, where)


def _refused(**choice: Any) -> str:
    with pytest.raises(InvalidInput) as refused:
        _settled(**choice)
    return refused.value.sentence


def test_a_gpu_s_setting_is_planned(card: str) -> None:
    setting = _settled()
    assert (setting.slots, setting.dtype, setting.quantization, setting.cache) == (4, torch.bfloat16, "none", None)
    assert setting.fast and setting.plan is not None and setting.plan.card.name == card
    many = _settled(slots=12)
    assert (many.slots, many.quantization, many.cache) == (12, "int8", None) or many.cache == torch.int8
    assert many.plan is not None and many.plan.frame_ms <= TARGET_MS


def test_wishes_reach_the_planner(card: str) -> None:
    setting = _settled(precision="int4", kv_cache="int8", slots=2)
    assert (setting.slots, setting.quantization, setting.cache) == (2, "int4", torch.int8)
    assert _settled(plain=True).fast is False
    assert "What works here: --slots " in _refused(slots=200)


def test_a_bench_finds_out_by_itself_and_a_render_has_time(card: str, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = _settled(slots=200, purpose="bench")
    assert (setting.slots, setting.plan, setting.fast, setting.quantization) == (200, None, True, "none")
    slow = Card("slow", 24 * GIB, 23 * GIB, 50e9, 1e13, (8, 6))
    monkeypatch.setattr(layouts, "read_card", lambda device, limit: slow)
    assert _settled(slots=1, purpose="render").dtype == torch.bfloat16
    assert "no live talk" in _refused(slots=1)


def test_random_weights_never_go_by_the_released_name(card: str) -> None:
    plan = _settled("random").plan
    assert plan is not None and plan.words.startswith(f"{RANDOM_NAME} as bfloat16")
    made = _settled("a-directory", config=full_stand_in().config).plan
    assert made is not None and made.words.startswith(f"{RANDOM_NAME} as bfloat16")
    small = layouts.sizes_of("a-directory", mini_stand_in().config)
    assert small.name.startswith("A model of ") and small.name.endswith(" M parameters, all random")


def test_without_a_gpu_there_is_one_line_and_nothing_is_planned() -> None:
    for name, dtype in (("demo", torch.float32), ("mini", torch.float32), ("hub", torch.bfloat16)):
        setting = _settled(name, CPU)
        assert (setting.slots, setting.dtype, setting.plan, setting.fast) == (1, dtype, None, False)
    assert _settled("mini", CPU, slots=3, precision="bfloat16") == Setting(3, torch.bfloat16)


def test_the_miniatures_are_not_planned_on_a_gpu_either() -> None:
    assert _settled("mini") == Setting(1, torch.float32, fast=True)
    trained = CheckpointConfig(trained_positions=512)
    assert _settled("demo", config=trained) == Setting(1, torch.float32, fast=False)


@pytest.mark.parametrize(
    ("device", "choice", "sentence"),
    [
        (
            CPU,
            {"precision": "int8"},
            "--precision int8 needs a CUDA GPU and the compiled kernels, and this runs on the CPU: leave it out.",
        ),
        (CPU, {"precision": "int4", "device": "cpu"}, "leave it out, or leave out --device cpu."),
        (CPU, {"kv_cache": "int8"}, "--kv-cache int8 needs a CUDA GPU and the compiled kernels, and this runs on"),
        (CPU, {"kv_cache": "int8", "precision": "int8"}, "--precision int8 and --kv-cache int8 need a CUDA GPU"),
        (CUDA, {"kv_cache": "int8", "cpu_offload": True}, "leave it out, or leave out --cpu-offload."),
        (CUDA, {"kv_cache": "int8", "plain": True, "name": "mini"}, "leave it out, or leave out --plain-engine."),
        (CUDA, {"cpu_offload": True, "name": "mini"}, "--cpu-offload is for models that a GPU cannot hold"),
        (CUDA, {"cpu_offload": True, "name": "demo"}, "--cpu-offload is for models that a GPU cannot hold"),
        (
            CUDA,
            {"precision": "int8", "config": CheckpointConfig(trained_positions=512)},
            "the trained miniature cannot run in these: leave it out.",
        ),
        (CPU, {"gpu_memory_bytes": GIB}, "--gpu-memory-gb holds a GPU's memory, and this runs on the CPU"),
        (CPU, {"cpu_offload": True}, "--cpu-offload helps a GPU, and this runs on the CPU"),
        (CUDA, {"precision": "int4", "plain": True}, "leave it out, or leave out --plain-engine."),
        (
            CUDA,
            {"precision": "int8", "cpu_offload": True},
            "leave it out, or leave out --cpu-offload.",
        ),
    ],
)
def test_what_does_not_go_together_is_said(device: torch.device, choice: dict[str, Any], sentence: str) -> None:
    said = _refused(where=device, **choice)
    assert sentence in said and said.startswith("--")
    given = {"--device cpu": choice.get("device") == "cpu", "--plain-engine": "plain" in choice}
    given |= {"--cpu-offload": "cpu_offload" in choice, "miniature": "config" in choice}
    assert [one for one, really in given.items() if one in said and not really] == [], "only what was given is named"


def test_a_host_without_the_memory_refuses_before_anything_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def held(gib: float, name: str = "random", **choice: Any) -> Setting:
        monkeypatch.setattr(layouts, "available_bytes", lambda: int(gib * GIB))
        return _settled(name, CPU, **choice)

    assert held(18).dtype == torch.bfloat16 and held(34, precision="float32").slots == 1
    for name in ("random", "hub", "a-directory"):
        with pytest.raises(InvalidInput, match=r"on the CPU needs 1[67]\.\d GiB of host memory \(weights 14\.3") as no:
            held(12, name)
        assert no.value.code == "does_not_fit" and "and 12.0 GiB are available" in no.value.sentence
        assert no.value.sentence.endswith("What works here: --checkpoint demo.")
    with pytest.raises(InvalidInput, match=r"as float32 .*weights 28\.6.* What works here: --precision bfloat16, or"):
        held(20, precision="float32")
    with pytest.raises(InvalidInput, match=r"with 4 lines .* What works here: --slots 1, or --checkpoint demo"):
        held(20, slots=4)
    assert held(0.2, "demo").slots == 1, "the miniatures fit anywhere"
    monkeypatch.setattr(layouts, "available_bytes", lambda: None)
    assert _settled("hub", CPU).slots == 1, "where the system does not tell, it is tried"


@pytest.mark.parametrize(
    ("name", "choice", "less"),
    [
        ("hub", {}, "--checkpoint demo"),
        ("hub", {"precision": "float32"}, "--precision bfloat16 or --checkpoint demo"),
        ("hub", {"slots": 2}, "fewer --slots or --checkpoint demo"),
        ("mini", {}, "--precision bfloat16"),
        ("mini", {"precision": "bfloat16"}, "a machine with more memory"),
    ],
)
def test_what_needs_less_on_a_cpu_is_something_that_does(name: str, choice: dict[str, Any], less: str) -> None:
    assert _settled(name, CPU, **choice).smaller == less


def test_an_old_card_runs_float32_without_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    old = Card("Quadro RTX 8000", 48 * GIB, 47 * GIB, 672e9, 16e12, (7, 5))
    monkeypatch.setattr(layouts, "read_card", lambda device, limit: old)
    setting = _settled(precision="float32")
    assert setting.dtype == torch.float32 and not setting.fast and setting.cache is None


def test_broken_kernels_are_planned_without_and_not_offered(card: str, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = settle(EngineChoice("hub", Path("cache")), "hub", RELEASED, CUDA, broken=True)
    assert not setting.fast and setting.plan is not None and setting.plan.layout.plain and setting.cache is None
    with pytest.raises(InvalidInput, match="What works here: --slots ") as refused:
        settle(EngineChoice("hub", Path("cache"), slots=12), "hub", RELEASED, CUDA, broken=True)
    assert "plain-engine" not in refused.value.sentence and "int8" not in refused.value.sentence
    monkeypatch.setattr(layouts, "read_card", lambda device, limit: fresh_card("RTX 4060 Ti 16 GB"))
    with pytest.raises(InvalidInput, match="What works here: --cpu-offload, with layers in host memory"):
        settle(EngineChoice("hub", Path("cache")), "hub", RELEASED, CUDA, broken=True)


def test_offload_gets_a_budget_instead_of_a_plan(card: str) -> None:
    setting = _settled(cpu_offload=True)
    assert setting.plan is None and not setting.fast and setting.slots == 1
    assert setting.budget_bytes is not None and 18 * GIB < setting.budget_bytes < 22 * GIB


def test_the_page_reads_what_was_measured(card: str) -> None:
    stepper: Any = SimpleNamespace(slots=4, summary="as before")
    plan = _settled().plan
    said = assemble.describe(stepper, plan, 28.44)
    assert said.startswith("PersonaPlex-7B as bfloat16, 4 lines on RTX 4090: ")
    assert said.endswith("with every line taken and every window full a frame takes 28.4 ms of 80.")
    slow = assemble.describe(stepper, plan, 93.2)
    assert "a frame takes 93 ms, more than the 80 that it lasts: not real time here." in slow
    assert "Offline render works" in slow and slow.endswith("start with --slots 3.")
    assert assemble.describe(stepper, None, 5.0) == "as before"


class FakeCuda:
    """As much of torch.cuda as a card is read with."""

    def __init__(self, name: str, **more: Any) -> None:
        self.properties = SimpleNamespace(
            name=name, major=8, minor=9, multi_processor_count=100, total_memory=24 * GIB, **more
        )
        self.fraction = 0.0

    def get_device_properties(self, device: torch.device) -> Any:
        return self.properties

    def mem_get_info(self, device: torch.device) -> tuple[int, int]:
        return 20 * GIB, 24 * GIB

    def current_device(self) -> int:
        return 0

    def set_per_process_memory_fraction(self, fraction: float, device: int) -> None:
        assert device == 0, "torch 2.11 takes no device without a number here"
        self.fraction = fraction


def _use(monkeypatch: pytest.MonkeyPatch, name: str, **more: Any) -> FakeCuda:
    fake = FakeCuda(name, **more)
    monkeypatch.setattr(torch, "cuda", fake)
    return fake


def test_a_known_card_is_read_with_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    _use(monkeypatch, "NVIDIA L4")
    known = cards_of_torch.read_card(CUDA)
    figures = figures_for("NVIDIA L4")
    assert figures is not None and known.bandwidth == figures.bandwidth and known.remark == ""
    assert (known.free_bytes, known.total_bytes, known.capability) == (20 * GIB, 24 * GIB, (8, 9))
    assert cards_of_torch.read_card(CUDA, 16 * GIB).free_bytes == 16 * GIB - CONTEXT_BYTES
    assert cards_of_torch.read_card(CUDA, 23 * GIB).free_bytes == 20 * GIB


def test_an_unknown_card_s_bandwidth_is_told_measured_or_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    _use(monkeypatch, "NVIDIA New", memory_clock_rate=10_000_000, memory_bus_width=256)
    told = cards_of_torch.read_card(CUDA)
    assert told.bandwidth == 640e9 and "what its clock and bus give" in told.remark
    _use(monkeypatch, "NVIDIA New")
    monkeypatch.setattr(cards_of_torch, "_copy_rate", lambda device: 700e9)
    measured = cards_of_torch.read_card(CUDA)
    assert measured.bandwidth == 700e9 and "700 GB/s were measured by copying" in measured.remark

    def no_room(device: torch.device) -> float:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(cards_of_torch, "_copy_rate", no_room)
    guessed = cards_of_torch.read_card(CUDA)
    assert guessed.bandwidth == cards_of_torch.CAUTIOUS_BANDWIDTH and "are a guess" in guessed.remark
    assert 1e12 < guessed.float32 < 1e14


def test_a_process_is_held_to_its_share_with_the_context_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = _use(monkeypatch, "NVIDIA L4")
    cards_of_torch.hold_memory(CUDA, 12 * GIB)
    assert fake.fraction == pytest.approx((12 * GIB - CONTEXT_BYTES) / (24 * GIB))
    cards_of_torch.hold_memory(CUDA, 80 * GIB)
    assert fake.fraction == pytest.approx((24 * GIB - CONTEXT_BYTES) / (24 * GIB)), "a card gives no more than it has"
    with pytest.raises(
        InvalidInput, match=r"--gpu-memory-gb must be more than 0\.5, which CUDA itself takes, not 0\.25"
    ):
        cards_of_torch.hold_memory(CUDA, GIB // 4)


def test_24_gb_is_what_a_card_of_24_gb_may_be_held_to(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = _use(monkeypatch, "NVIDIA GeForce RTX 4090")
    fake.properties.total_memory = int(23.6 * GIB)
    cards_of_torch.hold_memory(CUDA, 24 * GIB)
    assert fake.fraction == pytest.approx(1 - CONTEXT_BYTES / fake.properties.total_memory)
