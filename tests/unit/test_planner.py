"""The planner over a table of cards: what is planned, what is refused and with which numbers, and what always holds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from personaplex_app.cards import CARDS, CONTEXT_BYTES, GIB, Card, figures_for, fresh_card
from personaplex_app.errors import InvalidInput
from personaplex_app.model.config import CheckpointConfig, LanguageConfig
from personaplex_app.model.fast.blocks import BLOCK_POSITIONS as BLOCK
from personaplex_app.model.sizes import RELEASED, model_sizes
from personaplex_app.plan_costs import (
    BLOCK_POSITIONS,
    Layout,
    ModelSizes,
    frame_ms,
    memory_parts,
)
from personaplex_app.planner import (
    FEW_SLOTS,
    FRAME_MS,
    MOST_UNASKED_SLOTS,
    TARGET_MS,
    Plan,
    Wishes,
    make_plan,
    offload_budget,
    smaller_than,
)

SIZES = model_sizes(CheckpointConfig())
ORDER = ["bfloat16", "int8", "int4"]


def _planned(card: str | Card, **wishes: object) -> Plan:
    return make_plan(fresh_card(card) if isinstance(card, str) else card, SIZES, Wishes(**wishes))  # type: ignore[arg-type]


def _refused(card: str | Card, **wishes: object) -> InvalidInput:
    with pytest.raises(InvalidInput) as refused:
        _planned(card, **wishes)
    assert "\n" not in refused.value.sentence and "What works here: " in refused.value.sentence
    return refused.value


def _held(total_gib: float) -> Card:
    """An H200 of which this process may take so much, CUDA's context among it."""
    return replace(fresh_card("H200"), free_bytes=int(total_gib * GIB) - CONTEXT_BYTES)


def test_the_model_is_counted_not_typed_in() -> None:
    assert SIZES.name == RELEASED
    assert 7.68e9 < SIZES.matrices + SIZES.others + SIZES.tables < 7.70e9
    assert 6.70e9 < SIZES.matrices < 6.72e9, "attention, gating and the text head"
    small = model_sizes(CheckpointConfig(language=LanguageConfig(layers=2)))
    assert small.matrices == (SIZES.matrices - 32_000 * 4096) // 16 + 32_000 * 4096 and small.name != RELEASED


def test_a_codec_that_cannot_be_built_is_said() -> None:
    with pytest.raises(InvalidInput, match=r"mimi_config in config\.json is not usable"):
        model_sizes(CheckpointConfig(mimi={"seanet": 3}))


def test_the_constants_are_the_fast_engine_s() -> None:
    from personaplex_app.model.fast import language
    from personaplex_app.plan_costs import ROW_BUCKETS

    assert ROW_BUCKETS == language.BUCKETS and BLOCK_POSITIONS == BLOCK


@pytest.mark.parametrize("name", [name for name in CARDS if name != "T4" and CARDS[name].memory_gib == 24])
def test_cards_of_24_gb_talk_in_bfloat16_or_say_how_else(name: str) -> None:
    plan = _planned(name)
    quick = CARDS[name].bandwidth >= 900e9
    assert plan.frame_ms <= FRAME_MS
    if quick:
        assert (plan.layout.precision, plan.layout.kv_cache) == ("bfloat16", "model")
        assert plan.layout.slots >= 4 and plan.frame_ms <= TARGET_MS
    else:
        assert plan.layout.slots >= 1 and plan.layout.precision in ("bfloat16", "int8")


def test_an_l4_holds_80_ms_in_bfloat16_but_not_our_line() -> None:
    alone = _planned("L4", precision="bfloat16")
    assert TARGET_MS < alone.frame_ms <= FRAME_MS and alone.layout.slots == 1 and alone.remark.startswith("Tight")
    assert _planned("L4").layout.precision == "int8", "which is quicker"
    assert _planned("L4").frame_ms < 0.7 * alone.frame_ms


@pytest.mark.parametrize(("total_gib", "precision", "least"), [(24, "bfloat16", 4), (16, "int8", 2)])
def test_what_an_h200_held_to_less_carries(total_gib: float, precision: str, least: int) -> None:
    plan = _planned(_held(total_gib))
    assert plan.layout.precision == precision and plan.layout.slots >= least
    assert plan.bytes <= plan.card.free_bytes


def test_a_16_gb_card_talks_in_8_bits() -> None:
    plan = _planned("RTX 4060 Ti 16 GB")
    assert plan.layout.precision == "int8" and plan.frame_ms <= FRAME_MS
    assert _planned("RTX 4060 Ti 16 GB", slots=2, precision="int8").layout.slots == 2, "where that is wished for"


def test_an_8_gb_card_is_told_what_it_lacks() -> None:
    refused = _refused("RTX 4060")
    assert refused.code == "does_not_fit"
    assert "as 4-bit weights, 1 line, 8-bit past needs 7." in refused.sentence and "7.1 GiB free" in refused.sentence
    assert "--cpu-offload" in refused.sentence


def test_4_bits_are_taken_only_where_nothing_else_fits_and_said() -> None:
    plan = _planned(replace(fresh_card("RTX 4060"), free_bytes=9 * GIB))
    assert plan.layout.precision == "int4" and "nothing here proves" in plan.words


def test_a_card_older_than_ampere_is_refused_in_words() -> None:
    for precision in ("auto", "bfloat16", "int8", "int4"):
        refused = _refused("T4", precision=precision)
        assert refused.code == "card_too_old"
        assert "compute capability 7.5" in refused.sentence and "8.0" in refused.sentence


OLD = Card("Quadro RTX 8000", 48 * GIB, 47 * GIB, 672e9, 16e12, (7, 5))


def test_an_old_card_with_float32_has_neither_kernels_nor_an_8_bit_past() -> None:
    plan = _planned(OLD, precision="float32")
    assert plan.layout.plain and plan.layout.kv_cache == "model" and plan.layout.precision == "float32"
    assert plan.layout.slots == 1 and plan.frame_ms > TARGET_MS
    assert plan.smaller.startswith("--cpu-offload"), "bfloat16 would be refused here"
    many = _planned(OLD, precision="float32", slots=3, live=False)
    assert many.layout.plain and many.smaller == "--slots 2"
    with pytest.raises(InvalidInput, match=r"an 8-bit past needs 8\.0: leave --kv-cache out"):
        _planned(OLD, precision="float32", kv_cache="int8")


def test_an_old_card_is_offered_only_what_it_takes() -> None:
    for wishes in ({"slots": 9}, {"slots": 1}):
        small = replace(OLD, free_bytes=20 * GIB)
        refused = _refused(small, precision="float32", **wishes)
        assert "bfloat16" not in refused.sentence and "int" not in refused.sentence.partition("What works")[2]
    slow = _refused(replace(OLD, bandwidth=100e9), precision="float32")
    assert slow.sentence.endswith("offline `render --precision float32`, not in real time.")


def test_large_cards_carry_many_but_not_more_than_was_measured() -> None:
    assert _planned("H200").layout == Layout("bfloat16", "model", MOST_UNASKED_SLOTS)
    assert _planned("H200", slots=64).layout == Layout("bfloat16", "model", 64)
    many = _planned("H200", slots=128)
    assert many.layout.kv_cache == "int8" and many.frame_ms < TARGET_MS and not many.remark


@pytest.mark.parametrize("name", [name for name in CARDS if name not in ("T4", "RTX 4060")])
def test_every_plan_holds_and_says_its_numbers(name: str) -> None:
    plan = _planned(name)
    assert plan.bytes <= plan.card.free_bytes and sum(plan.parts.values()) == plan.bytes
    assert plan.first_ms < plan.frame_ms and plan.prompt_bytes == plan.parts["known prompts"] > 0
    for said in (name, f"{plan.bytes / GIB:.1f} of {plan.card.free_bytes / GIB:.1f} GiB", f"{plan.frame_ms:.0f} ms"):
        assert said in plan.words
    assert plan.frame_ms <= TARGET_MS or (plan.layout.slots == 1 and "Tight" in plan.words)


def test_what_was_measured_is_predicted() -> None:
    """On an H200, to a twentieth; `plan_costs` names the runs."""
    h200 = fresh_card("H200")
    for layout, measured_ms in [
        (Layout("bfloat16", "model", 1), 6.77),
        (Layout("bfloat16", "model", 64), 33.0),
        (Layout("bfloat16", "int8", 8), 9.93),
        (Layout("bfloat16", "int8", 64), 23.4),
        (Layout("bfloat16", "int8", 128), 38.4),
        (Layout("int8", "model", 1), 5.80),
        (Layout("int4", "model", 1), 5.77),
        (Layout("bfloat16", "model", 1, plain=True), 15.5),
    ]:
        assert frame_ms(h200, SIZES, layout) == pytest.approx(measured_ms, rel=0.05)
    used = sum(memory_parts(SIZES, Layout("bfloat16", "model", 1)).values())
    assert 16.4 < used / GIB < 17.5, "what was measured, and a margin"


@pytest.mark.parametrize(
    ("card", "wishes", "code", "said"),
    [
        ("RTX 4090", {"slots": 30}, "does_not_fit", "What works here: --slots "),
        ("RTX 4090", {"slots": 8, "precision": "bfloat16", "kv_cache": "model"}, "does_not_fit", "--kv-cache int8"),
        ("RTX 4060 Ti 16 GB", {"precision": "bfloat16"}, "does_not_fit", "--precision int8"),
        ("L4", {"slots": 6, "precision": "bfloat16"}, "too_slow", "--precision int"),
        ("L4", {"slots": 5, "precision": "bfloat16"}, "too_slow", "would take about 8"),
        ("RTX 4090", {"precision": "float32"}, "does_not_fit", "--precision bfloat16"),
        ("RTX 4090", {"plain": True, "precision": "int8"}, "does_not_fit", "leave --plain-engine out"),
        ("RTX 4090", {"plain": True, "slots": 9}, "does_not_fit", "--slots "),
    ],
)
def test_a_wish_that_cannot_be_is_refused_with_what_can(
    card: str, wishes: dict[str, object], code: str, said: str
) -> None:
    if "leave" in said:
        with pytest.raises(InvalidInput, match="leave --plain-engine out"):
            _planned(card, **wishes)
        return
    refused = _refused(card, **wishes)
    assert refused.code == code and said in refused.sentence


def test_what_is_said_to_work_works() -> None:
    for card, wishes in [
        ("RTX 4090", Wishes(slots=30)),
        ("RTX 4060 Ti 16 GB", Wishes(precision="bfloat16")),
        ("L4", Wishes(precision="bfloat16", slots=5)),
    ]:
        with pytest.raises(InvalidInput) as refused:
            make_plan(fresh_card(card), SIZES, wishes)
        flags = refused.value.sentence.partition("What works here: ")[2].split(" (")[0].split()
        changes = dict(zip(flags[::2], flags[1::2], strict=True))
        make_plan(
            fresh_card(card),
            SIZES,
            replace(
                wishes,
                slots=int(changes.get("--slots", wishes.slots or 0)) or None,
                precision=changes.get("--precision", wishes.precision),
                kv_cache=changes.get("--kv-cache", wishes.kv_cache),
            ),
        )


def test_a_slow_card_talks_not_but_renders() -> None:
    slow = replace(fresh_card("RTX 4090"), bandwidth=50e9)
    refused = _refused(slow)
    assert refused.code == "too_slow" and "(50 GB/s): no live talk" in refused.sentence
    assert "offline `render --precision bfloat16`" in refused.sentence
    assert make_plan(slow, SIZES, Wishes(slots=1, live=False)).layout.precision == "bfloat16"


def test_the_plain_engine_has_neither_8_bits_nor_blocks() -> None:
    plan = _planned("RTX 4090", plain=True)
    assert plan.layout.plain and plan.prompt_bytes == 0 and plan.layout.precision == "bfloat16"
    assert plan.frame_ms > frame_ms(plan.card, SIZES, replace(plan.layout, plain=False))


def test_the_next_smaller_plan_ends_in_words() -> None:
    layout, seen = Layout("bfloat16", "model", 2), []
    while (flags := smaller_than(layout)).startswith("--") and "offload" not in flags:
        seen.append(flags)
        name, value = flags.split()
        layout = replace(layout, slots=int(value)) if name == "--slots" else layout
        layout = replace(layout, kv_cache=value) if name == "--kv-cache" else layout
        layout = replace(layout, precision=value) if name == "--precision" else layout
    assert seen == ["--slots 1", "--kv-cache int8", "--precision int8", "--precision int4"]
    assert "--cpu-offload" in flags


def test_offload_gets_what_lines_and_codec_leave_over() -> None:
    card = fresh_card("RTX 4060")
    budget = offload_budget(card, SIZES, "bfloat16", None)
    assert 3.5 * GIB < budget < card.free_bytes - 1.5 * GIB
    assert offload_budget(card, SIZES, "bfloat16", 2) < budget


def test_a_laptop_s_or_a_sliced_card_is_another_card() -> None:
    assert figures_for("NVIDIA GeForce RTX 4090") is CARDS["RTX 4090"]
    assert figures_for("NVIDIA A100-SXM4-80GB") is CARDS["A100 80 GB"]
    for other in (
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "NVIDIA GeForce RTX 4090 D",
    ):
        assert figures_for(other) is None


def _cards() -> st.SearchStrategy[Card]:
    return st.builds(
        lambda free, bandwidth, arithmetic: Card(
            "some card", free + GIB, free, bandwidth * 1e9, arithmetic * 1e12, (8, 6)
        ),
        st.integers(0, 150 * GIB),
        st.floats(50, 8000),
        st.floats(5, 120),
    )


def _wishes() -> st.SearchStrategy[Wishes]:
    return st.builds(
        Wishes,
        precision=st.sampled_from(["auto", "float32", *ORDER]),
        kv_cache=st.sampled_from(["auto", "model", "int8"]),
        slots=st.none() | st.integers(1, 140),
        plain=st.booleans(),
        live=st.booleans(),
    )


def _tried(card: Card, wishes: Wishes, sizes: ModelSizes = SIZES) -> Plan | None:
    try:
        return make_plan(card, sizes, wishes)
    except InvalidInput as refused:
        assert refused.sentence and "\n" not in refused.sentence
        return None


def _rank(plan: Plan | None) -> tuple[int, int, int]:
    """How good a plan is: exact weights before an exact past before lines."""
    if plan is None:
        return (-9, 0, 0)
    precision = 0 if plan.layout.precision == "float32" else -ORDER.index(plan.layout.precision)
    return (precision, int(plan.layout.kv_cache == "model"), plan.layout.slots)


@settings(max_examples=120, deadline=None)
@given(_cards(), st.integers(0, 40 * GIB), _wishes())
def test_more_memory_never_gives_less(card: Card, more: int, wishes: Wishes) -> None:
    """Not fewer lines in the same precision and past, and never a coarser one where the same speed would do."""
    few, many = _tried(card, wishes), _tried(replace(card, free_bytes=card.free_bytes + more), wishes)
    if few is None:
        return
    assert many is not None
    if few.frame_ms <= TARGET_MS or not wishes.live:
        assert _rank(many) >= _rank(few)


@settings(max_examples=120, deadline=None)
@given(_cards(), st.floats(1, 5), _wishes())
def test_faster_never_gives_less_and_is_never_predicted_slower(card: Card, times: float, wishes: Wishes) -> None:
    faster = replace(card, bandwidth=card.bandwidth * times)
    slow, quick = _tried(card, wishes), _tried(faster, wishes)
    if slow is None:
        return
    assert frame_ms(faster, SIZES, slow.layout) <= slow.frame_ms and quick is not None
    if slow.frame_ms <= TARGET_MS:
        assert _rank(quick) >= _rank(slow)


@settings(max_examples=120, deadline=None)
@given(_cards(), _wishes())
def test_a_plan_keeps_to_memory_time_and_wishes(card: Card, wishes: Wishes) -> None:
    plan = _tried(card, wishes)
    if plan is None:
        return
    assert plan.bytes <= card.free_bytes
    assert not wishes.live or plan.frame_ms <= FRAME_MS
    assert wishes.slots in (None, plan.layout.slots)
    assert wishes.precision in ("auto", plan.layout.precision) and wishes.kv_cache in ("auto", plan.layout.kv_cache)
    if wishes.slots is None and plan.layout.slots > max(FEW_SLOTS, 1):
        assert plan.frame_ms <= TARGET_MS
