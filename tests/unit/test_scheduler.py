"""When to tick: at once when all have a frame, after a frame's time otherwise, with silence only after patience."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from personaplex_app.audio import FRAME_SECONDS
from personaplex_app.engine.scheduler import PATIENCE_SECONDS, SlotView, TickPlan, plan_tick

NOW = 1000.0
AGES = st.one_of(st.floats(0, 2), st.sampled_from([0.0, FRAME_SECONDS, PATIENCE_SECONDS]))
VIEWS = st.lists(st.tuples(st.integers(0, 3), AGES), max_size=6).map(
    lambda pairs: [SlotView(slot, frames, NOW - age) for slot, (frames, age) in enumerate(pairs)]
)
TICKS = st.one_of(st.just(float("-inf")), AGES.map(lambda age: NOW - age))


def _is_patient(view: SlotView) -> bool:
    return NOW - view.hungry_since < PATIENCE_SECONDS


def test_nobody_talks_nothing_ticks_and_the_next_event_is_awaited() -> None:
    assert plan_tick(NOW, NOW, []) == TickPlan() and not TickPlan().ready
    assert TickPlan().wait_seconds is None


@given(VIEWS, TICKS)
def test_all_have_a_frame_and_the_tick_is_now(views: list[SlotView], last_tick: float) -> None:
    full = [SlotView(view.slot, view.waiting_frames + 1, view.hungry_since) for view in views]
    plan = plan_tick(NOW, last_tick, full)
    assert plan.heard == tuple(view.slot for view in full) and plan.silent == ()
    assert plan.ready == bool(full)


@given(VIEWS, TICKS)
def test_nobody_is_both_heard_and_silent_and_none_is_invented(views: list[SlotView], last_tick: float) -> None:
    plan = plan_tick(NOW, last_tick, views)
    named = [*plan.heard, *plan.silent]
    assert len(named) == len(set(named)) and set(named) <= {view.slot for view in views}


@given(VIEWS, TICKS)
def test_a_plan_ticks_or_says_how_long_to_wait(views: list[SlotView], last_tick: float) -> None:
    plan = plan_tick(NOW, last_tick, views)
    if plan.ready or not views:
        assert plan.wait_seconds is None
    else:
        assert plan.wait_seconds is not None and 0 <= plan.wait_seconds <= PATIENCE_SECONDS + 1e-9


@given(VIEWS, TICKS)
def test_silence_only_after_patience(views: list[SlotView], last_tick: float) -> None:
    plan = plan_tick(NOW, last_tick, views)
    by_slot = {view.slot: view for view in views}
    assert all(by_slot[slot].waiting_frames and slot not in plan.silent for slot in plan.heard)
    assert not any(by_slot[slot].waiting_frames or _is_patient(by_slot[slot]) for slot in plan.silent)


@given(VIEWS, TICKS)
def test_a_tick_without_some_comes_a_frame_s_time_after_the_last(views: list[SlotView], last_tick: float) -> None:
    plan = plan_tick(NOW, last_tick, views)
    missing = len(views) - len(plan.heard) - len(plan.silent)
    if plan.ready and missing:
        assert last_tick + FRAME_SECONDS <= NOW
    if plan.ready:
        assert {view.slot for view in views if view.waiting_frames} == set(plan.heard)


@given(VIEWS, TICKS)
def test_after_the_wait_there_is_a_tick(views: list[SlotView], last_tick: float) -> None:
    """Waiting as long as the plan says is enough: no slot starves through a wait that was too short or none."""
    plan = plan_tick(NOW, last_tick, views)
    if plan.wait_seconds is not None:
        assert plan_tick(NOW + plan.wait_seconds + 1e-6, last_tick, views).ready


def test_one_waits_for_another_no_longer_than_a_frame() -> None:
    views = [SlotView(0, 1, NOW), SlotView(1, 0, NOW)]
    last_tick = NOW - 0.03
    waiting = plan_tick(NOW, last_tick, views)
    assert not waiting.ready and abs((waiting.wait_seconds or 0) - 0.05) < 1e-9
    assert plan_tick(last_tick + FRAME_SECONDS, last_tick, views) == TickPlan(heard=(0,))


def test_a_lonely_silent_slot_ticks_when_its_patience_ends() -> None:
    view = SlotView(0, 0, NOW)
    early = plan_tick(NOW + 0.1, NOW, [view])
    assert not early.ready and abs((early.wait_seconds or 0) - (PATIENCE_SECONDS - 0.1)) < 1e-9
    assert plan_tick(NOW + PATIENCE_SECONDS + 1e-9, NOW, [view]) == TickPlan(silent=(0,))
