"""What a server says is read strictly, and what it may say one day is passed over."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_line import ADMITTED, ENDED, HELLO, refused, talk_state

from personaplex_app.client import messages
from personaplex_app.client.parsing import parse_message
from personaplex_app.errors import ServerFault

GOOD = {
    "Hello": HELLO,
    "Waiting": {"type": "waiting", "place": 1, "of": 3, "estimate_seconds": 120, "sentence": "s"},
    "Turn": {"type": "turn", "seconds": 30, "sentence": "s"},
    "Admitted": ADMITTED,
    "TalkState": talk_state(),
    "Words": {"type": "words", "text": "Hello", "from_start": False},
    "Guard": {
        "type": "guard",
        "number": 0,
        "action": "steadied",
        "reason": "repeats",
        "phrase": "no",
        "second": 4.8,
        "sentence": "s",
    },
    "Notice": {"type": "warning", "code": "idle", "seconds": 30, "sentence": "s"},
    "Refused": refused("no_capacity"),
    "Lost": {"type": "lost", "grant": "g", "seconds": 25, "sentence": "s"},
    "Ended": ENDED,
    "Pong": {"type": "pong", "at": 1.5, "step_ms": 12.25},
}


@pytest.mark.parametrize("name", GOOD)
def test_every_message_becomes_its_value(name: str) -> None:
    event = parse_message(json.dumps(GOOD[name] | {"of_a_later_version": 1}))
    assert type(event) is getattr(messages, name)
    assert {key: value for key, value in GOOD[name].items() if key != "type"} == vars(event)


@pytest.mark.parametrize("name", GOOD)
def test_a_field_missing_or_of_another_kind_is_named(name: str) -> None:
    for key in GOOD[name].keys() - {"type"}:
        less = {other: value for other, value in GOOD[name].items() if other != key}
        with pytest.raises(ServerFault, match=f"has nothing for '{key}'"):
            parse_message(json.dumps(less))
        with pytest.raises(ServerFault, match=f"for '{key}'"):
            parse_message(json.dumps(less | {key: [[1]] if isinstance(GOOD[name][key], dict) else {"a": 1}}))


def test_true_is_no_number_and_an_estimate_may_be_unknown() -> None:
    with pytest.raises(ServerFault):
        parse_message(json.dumps(GOOD["Turn"] | {"seconds": True}))
    event = parse_message(json.dumps(GOOD["Waiting"] | {"estimate_seconds": None}))
    assert isinstance(event, messages.Waiting) and event.estimate_seconds is None


def test_an_unknown_type_is_passed_over() -> None:
    assert parse_message('{"type": "weather", "text": "rain"}') == messages.Unknown("weather")


@pytest.mark.parametrize("text", ["", "{", "null", "[]", "3", '{"type": 3}', "{}", "[" * 100_000])
def test_what_is_no_message_is_said_to_be_none(text: str) -> None:
    with pytest.raises(ServerFault) as caught:
        parse_message(text)
    assert "no message" in caught.value.sentence and len(caught.value.sentence) < 160


def test_secrets_are_not_shown() -> None:
    shown = "".join(repr(parse_message(json.dumps(GOOD[name]))) for name in ("Admitted", "TalkState", "Lost"))
    assert "grant" not in shown and "ticket" not in shown and "ice_servers" not in shown


json_values = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=3)


@given(st.sampled_from(sorted(GOOD)), st.dictionaries(st.sampled_from(["seconds", "code", "text", "at"]), json_values))
def test_whatever_comes_is_an_event_or_a_fault(name: str, changes: dict) -> None:
    try:
        parse_message(json.dumps(GOOD[name] | changes))
    except ServerFault as fault:
        assert fault.code == "bad_message"
