"""Calls are remembered by their connection, in bounded memory, whatever ids the browsers choose."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from personaplex_app.web.call_view import CallView
from personaplex_app.web.calls import MOST_REMEMBERED, Calls


def test_a_call_s_last_words_are_found_by_its_id() -> None:
    calls = Calls()
    calls.show("a", CallView(status="one"))
    calls.show("b", CallView(status="two"))
    calls.show("a", CallView(status="three"))
    assert (calls.view("a"), calls.view("b")) == (CallView(status="three"), CallView(status="two"))
    assert calls.view("c") is None


def test_memory_is_bounded_and_the_oldest_goes_first() -> None:
    calls = Calls()
    for number in range(3 * MOST_REMEMBERED):
        calls.show(f"call {number}", CallView(status=str(number)))
    known = [number for number in range(3 * MOST_REMEMBERED) if calls.view(f"call {number}")]
    assert known == list(range(2 * MOST_REMEMBERED, 3 * MOST_REMEMBERED))
    assert len(calls._views) == MOST_REMEMBERED


def test_a_call_that_still_says_something_is_not_forgotten() -> None:
    calls = Calls()
    for number in range(2 * MOST_REMEMBERED):
        calls.show("long", CallView(status=f"frame {number}"))
        calls.show(f"short {number}", CallView())
    view = calls.view("long")
    assert view is not None and view.status == f"frame {2 * MOST_REMEMBERED - 1}"


@given(st.lists(st.text(max_size=20), max_size=50))
def test_any_id_is_only_a_key(ids: list[str]) -> None:
    calls = Calls()
    for number, call in enumerate(ids):
        calls.show(call, CallView(status=str(number)))
    for call in ids:
        last = max(number for number, other in enumerate(ids) if other == call)
        view = calls.view(call)
        assert view is not None and view.status == str(last)
