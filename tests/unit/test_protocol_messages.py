"""What a client may say: every kind of message, and a sentence for anything else that can come out of a socket."""

from __future__ import annotations

import json
import math
from typing import Any, get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from personaplex_app.errors import InvalidInput
from personaplex_app.web import protocol
from personaplex_app.web.protocol import (
    Answer,
    Ask,
    Check,
    Message,
    Ping,
    Record,
    Resume,
    Set,
    Sound,
    StartOver,
    Stop,
    parse,
    say,
)

KINDS = list(protocol._KNOWN)
KNOWN = "ask, answer, sound, set, start_over, resume, record, stop, ping, check"
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.dictionaries(st.sampled_from(["type", "choices", "grant", "at", "path", "sdp", "more"]), VALUES, max_size=5)


def _refusal(text: str) -> str:
    with pytest.raises(InvalidInput) as refused:
        parse(text)
    assert refused.value.code == "bad_message" and "\n" not in refused.value.sentence
    return refused.value.sentence


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"type":"ask"}', Ask({})),
        ('{"type":"ask","choices":{"seed":"7"}}', Ask({"seed": "7"})),
        ('{"type":"answer"}', Answer()),
        ('{"type":"sound"}', Sound()),
        ('{"type":"set","choices":{"audio_temperature":0.3}}', Set({"audio_temperature": 0.3})),
        ('{"type":"start_over"}', StartOver({})),
        ('{"type":"start_over","choices":{"seed":"7"}}', StartOver({"seed": "7"})),
        ('{"type":"resume","grant":"abc","path":"socket"}', Resume("abc")),
        ('{"type":"record","on":true}', Record(True)),
        ('{"type":"record","on":false,"more":1}', Record(False)),
        ('{"type":"stop"}', Stop()),
        ('{"type":"ping","at":12.5}', Ping(12.5)),
        ('{"type":"ping"}', Ping(0)),
        ('{"type":"ping","at":1,"heard":37}', Ping(1, 37)),
        ('{"type":"check"}', Check(None)),
        ('{"type":"check","sdp":"v=0"}', Check("v=0")),
        (' {"from": "a later version", "type" : "stop" }\n', Stop()),
    ],
)
def test_every_kind_is_understood(text: str, message: Message) -> None:
    assert parse(text) == message


def test_numbers_that_json_does_not_know_reach_the_choices_as_they_are() -> None:
    read = parse('{"type":"ask","choices":{"audio_temperature":NaN,"text_temperature":-Infinity}}')
    assert isinstance(read, Ask) and math.isnan(read.choices["audio_temperature"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "A text message must be JSON."),
        ("hello", "A text message must be JSON."),
        ("[]", "A message is a JSON object"),
        ("null", "A message is a JSON object"),
        ('"ask"', "A message is a JSON object"),
        ("{}", KNOWN),
        ('{"type":"Ask"}', KNOWN),
        ('{"type":7}', KNOWN),
        ('{"type":["ask"]}', KNOWN),
        ('{"type":{"ask":1}}', KNOWN),
        ('{"type":"ask","choices":[]}', "The choices must be a JSON object"),
        ('{"type":"set","choices":null}', "The choices must be a JSON object"),
        ('{"type":"start_over","choices":7}', "The choices must be a JSON object"),
        ('{"type":"resume"}', "The grant must be"),
        ('{"type":"resume","grant":""}', "The grant must be"),
        ('{"type":"resume","grant":7}', "The grant must be"),
        (json.dumps({"type": "resume", "grant": "x" * 65}), "The grant must be"),
        ('{"type":"check","sdp":7}', "sdp"),
        ('{"type":"ping","at":"now"}', "must be a number"),
        ('{"type":"ping","at":true}', "must be a number"),
        ('{"type":"ping","at":NaN}', "must be a number"),
        ('{"type":"ping","at":-Infinity}', "must be a number"),
        ('{"type":"ping","at":' + "9" * 400 + "}", "must be a number"),
        ('{"type":"ping","at":' + "9" * 10_000 + "}", "A text message must be JSON."),
        ("[" * 100_000, "A text message must be JSON."),
        ('{"type":"ask"' + " " * protocol.MOST_TEXT_CHARACTERS + "}", "1048576 characters at most"),
    ],
    ids=lambda text: text[:30],
)
def test_what_is_no_message_is_said(text: str, words: str) -> None:
    assert words in _refusal(text)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60) | VALUES.map(json.dumps) | FIELDS.map(json.dumps))
@example("\ud800")
@example('{"type":"\\ud800"}')
@example('{"a":1,"a":2,"type":"stop","type":"ping"}')
def test_any_text_gives_a_message_or_a_sentence(text: str) -> None:
    _given_or_refused(text)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(KINDS), FIELDS)
def test_any_fields_of_a_known_kind_give_a_message_or_a_sentence(kind: str, fields: dict[str, Any]) -> None:
    _given_or_refused(json.dumps({**fields, "type": kind}))


def _given_or_refused(text: str) -> None:
    try:
        message = parse(text)
    except InvalidInput as refused:
        assert refused.code == "bad_message" and 0 < len(refused.sentence) < 200
        refused.sentence.encode()
    else:
        assert isinstance(message, get_args(Message))


# What the server says.


def test_the_server_s_words_are_compact_json() -> None:
    assert say("hello", protocol=1, free=2) == '{"type":"hello","protocol":1,"free":2}'


def test_any_letters_travel() -> None:
    sentence = "日本 \U0001f600 \ud800 <b>"
    assert json.loads(say("ended", sentence=sentence))["sentence"] == sentence
    say("ended", sentence=sentence).encode("ascii")


def test_no_number_leaves_that_a_browser_cannot_read() -> None:
    with pytest.raises(ValueError, match="JSON"):
        say("pong", at=math.nan)
