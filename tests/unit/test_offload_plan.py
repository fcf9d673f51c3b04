"""Which layers stay and which stream: sizes, the edges of a budget, refusals and sentences in words with numbers."""

from __future__ import annotations

from itertools import pairwise

import pytest

from personaplex_app.errors import InvalidInput
from personaplex_app.model.config import LanguageConfig
from personaplex_app.model.offload_plan import (
    OffloadPlan,
    check_host_room,
    gpu_weight_bytes,
    layer_bytes,
    offload_sentence,
    plan_offload,
)

RELEASED = LanguageConfig()
BF16 = 2
GIB = 1 << 30
ONE_LAYER = 2 * (4 * 4096 * 4096 + 3 * 4096 * 11264 + 2 * 4096)


def test_sizes_of_the_released_model() -> None:
    assert layer_bytes(RELEASED, BF16) == ONE_LAYER
    whole = gpu_weight_bytes(RELEASED, BF16, 32)
    assert 14.2 * GIB < whole < 14.4 * GIB
    assert gpu_weight_bytes(RELEASED, BF16, 31) == whole + ONE_LAYER, "one layer less, two staging buffers more"
    assert gpu_weight_bytes(RELEASED, 2 * BF16, 0) == 2 * gpu_weight_bytes(RELEASED, BF16, 0)


@pytest.mark.parametrize("resident", [0, 1, 6, 29])
def test_a_budget_is_used_up_to_its_last_byte_and_never_beyond(resident: int) -> None:
    enough = gpu_weight_bytes(RELEASED, BF16, resident)
    plan = plan_offload(RELEASED, BF16, enough)
    assert len(plan.streamed) == 32 - resident and plan.gpu_bytes == enough
    assert plan.host_bytes == (32 - resident) * ONE_LAYER
    if resident:
        less = plan_offload(RELEASED, BF16, enough - 1)
        assert len(less.streamed) == 32 - resident + 1 and less.gpu_bytes < enough


def test_nothing_streams_where_all_fits() -> None:
    whole = gpu_weight_bytes(RELEASED, BF16, 32)
    assert plan_offload(RELEASED, BF16, whole) == OffloadPlan(32, (), whole, 0)
    just_not = plan_offload(RELEASED, BF16, whole - 1)
    assert len(just_not.streamed) == 3 and just_not.gpu_bytes < whole, "two buffers stand where two layers would"


@pytest.mark.parametrize("layers", [1, 3, 7])
def test_every_budget_gives_a_plan_that_keeps_within_it(layers: int) -> None:
    config = LanguageConfig(layers=layers)
    least = gpu_weight_bytes(config, BF16, 0)
    for budget in range(least, gpu_weight_bytes(config, BF16, layers) + ONE_LAYER, ONE_LAYER // 3):
        plan = plan_offload(config, BF16, budget)
        assert plan.gpu_bytes <= budget
        assert list(plan.streamed) == sorted(set(plan.streamed)) and set(plan.streamed) <= set(range(layers))
        more = plan_offload(config, BF16, budget + ONE_LAYER)
        assert len(more.streamed) < max(len(plan.streamed), 1)


def test_layers_that_stream_lie_evenly_among_those_that_stay() -> None:
    assert plan_offload(RELEASED, BF16, gpu_weight_bytes(RELEASED, BF16, 28)).streamed == (7, 15, 23, 31)
    for resident in range(30):
        streamed = plan_offload(RELEASED, BF16, gpu_weight_bytes(RELEASED, BF16, resident)).streamed
        circle = [after - before for before, after in pairwise((*streamed, streamed[0] + 32))]
        assert max(circle) - min(circle) <= 1


@pytest.mark.parametrize("budget", [-GIB, 0, gpu_weight_bytes(RELEASED, BF16, 0) - 1])
def test_a_budget_too_small_for_the_rest_is_refused_with_numbers(budget: int) -> None:
    with pytest.raises(InvalidInput) as refused:
        plan_offload(RELEASED, BF16, budget)
    assert "take 2.83 GiB of GPU memory" in refused.value.sentence
    assert f"the weights may take {max(budget, 0) / GIB:.2f} GiB" in refused.value.sentence


def test_too_little_host_memory_is_refused_with_numbers() -> None:
    plan = plan_offload(RELEASED, BF16, 6 * GIB)
    check_host_room(plan, plan.host_bytes + GIB)
    check_host_room(plan, None)
    with pytest.raises(InvalidInput) as refused:
        check_host_room(plan, 8 * GIB)
    assert refused.value.sentence.startswith("The 24 of 32 layers that do not fit the GPU need 10.19 GiB")
    assert "8.00 GiB are available" in refused.value.sentence


def test_host_memory_does_not_matter_where_nothing_streams() -> None:
    check_host_room(plan_offload(RELEASED, BF16, 20 * GIB), 0)


def test_the_sentence_says_what_streams_what_it_costs_and_what_still_works() -> None:
    assert offload_sentence(310.4, 21, 32) == (
        "21 of 32 layers stream from host memory: a frame takes 310 ms, 80 would be real time; "
        "not real time here, offline render works."
    )
    assert offload_sentence(61, 3, 32) == (
        "3 of 32 layers stream from host memory: a frame takes 61 ms, 80 is real time."
    )
