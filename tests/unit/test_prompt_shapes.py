"""Trained shapes are recognised, a desk's form writes one, and any other prompt is written into the nearest."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from personaplex_app.errors import InvalidInput
from personaplex_app.prompt_shapes import (
    EMPTY_DESK,
    TALKER,
    TEACHER,
    Desk,
    article,
    read_desk,
    shape_of,
    write_desk,
)
from personaplex_app.prompt_templates import nearest

BANK = Desk("Harbour Bank", "bank", "Daniel Moreno", "Open from 9 AM to 5 PM. Verify the name first.")


@pytest.mark.parametrize(
    ("prompt", "shape"),
    [
        (TEACHER, "assistant"),
        (f"{TEACHER} You teach chess.", "assistant"),
        (TEACHER.replace("wise and friendly teacher", "patient chess coach"), "assistant"),
        (f"<system> {TEACHER} <system>", "assistant"),
        (TALKER, "casual"),
        (f"  {TALKER.upper()}\n You are Mira.", "casual"),
        (BANK.prompt, "service"),
        (BANK.prompt.replace(" and your", "\nand your"), "service"),
        ("you work for Dr. Jones which is an office and your name is A. B. Information: None.", "service"),
        ("", "other"),
        ("<system><system>", "other"),
        ("<system>", "other"),
        ("You are a wise and friendly teacher.", "other"),
        ("You are a helpful assistant.", "other"),
        ("Yes. " + TALKER, "other"),
        ("Now you work for A which is a b and your name is C. Information: D.", "other"),
        ("You work for A which is b and your name is C. Information: D.", "other"),
        ("You work for A which is a b and your name is C. Information:", "other"),
        ("You work for which is a b and your name is C. Information: D.", "other"),
        ("You work for A and your name is C. Information: D.", "other"),
    ],
)
def test_a_shape_is_recognised(prompt: str, shape: str) -> None:
    assert shape_of(prompt) == shape
    assert (read_desk(prompt) is not None) == (shape == "service")


@pytest.mark.parametrize(
    ("noun", "wanted"),
    [
        ("bank", "a"),
        ("insurance company", "an"),
        ("Airline", "an"),
        ("university", "a"),
        ("used car shop", "a"),
        ("hourly rental", "an"),
        ("one-room hotel", "a"),
        ("European bakery", "a"),
    ],
)
def test_the_article_follows_the_sound(noun: str, wanted: str) -> None:
    assert article(noun) == wanted


def test_the_form_writes_the_trained_prompt() -> None:
    asked = {"company": " Blue\n River. ", "kind": "a bike shop", "name": "Kate.", "facts": "A bike costs $45"}
    desk = write_desk(asked)
    assert desk.prompt == (
        "You work for Blue River which is a bike shop and your name is Kate. Information: A bike costs $45."
    )
    assert shape_of(desk.prompt) == "service"


FULL = {"company": "A", "kind": "b", "name": "C", "facts": "D."}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"company": ""}, "'company' must be a text; it is empty"),
        ({"facts": " . "}, "'facts' must be a text; it is empty"),
        ({"name": None}, "'name' must be a text, not nothing"),
        ({"kind": ["bank"]}, "'kind' must be a text, not a list"),
        ({"company": "x" * 81}, "'company' has 81 characters; at most 80"),
        ({"facts": "x" * 4001}, "'facts' has 4,001 characters; at most 4,000"),
        ({"name": "a\x07"}, r"'name' holds the character U\+0007"),
        ({"facts": "x <system> y"}, "'facts' holds <system>, which marks"),
        ({"company": "A which is B"}, "'company' holds 'which is', which holds the prompt together"),
        ({"company": "A WHICH IS"}, "'company' holds 'which is'"),
        ({"kind": "b and your name is"}, "'kind' holds 'and your name is'"),
        ({"name": "C. Information: E"}, "'name' holds 'Information:'"),
        ({"colour": "red"}, "Unknown field 'colour'; known are company, kind, name, facts"),
    ],
)
def test_what_the_form_cannot_use_is_said(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        write_desk({**FULL, **changes})
    for key in FULL:
        with pytest.raises(InvalidInput, match=f"^'{key}' must be a text"):
            write_desk({name: value for name, value in FULL.items() if name != key})


FIELD = st.text(st.characters(codec="ascii"), min_size=1, max_size=40) | st.sampled_from(
    ["which is", "a", "an a", "Information:", ".", "your name is", "a which is an", "and your name is a"]
)


@settings(max_examples=300, deadline=None)
@given(FIELD, FIELD, FIELD, FIELD)
def test_whatever_the_form_takes_is_read_back(company: str, kind: str, name: str, facts: str) -> None:
    try:
        desk = write_desk({"company": company, "kind": kind, "name": name, "facts": facts})
    except InvalidInput:
        return
    assert read_desk(desk.prompt) == desk


@pytest.mark.parametrize(
    ("prompt", "template"),
    [
        ("You are a helpful assistant.", TEACHER),
        ("You are a friendly AI assistant. Explain physics simply.", f"{TEACHER} Explain physics simply."),
        ("You are a pirate named Bob. You like rum.", f"{TALKER} You are a pirate named Bob. You like rum."),
        (
            "I am Lena from Oslo and I like my cat. Talk to me.",
            f"{TALKER} You are Lena from Oslo and you like your cat. Talk to me.",
        ),
        ("", TALKER),
        (
            "You work at Blue River, a bike shop. Your name is Kate. A bike costs $45.",
            "You work for Blue River which is a bike shop and your name is Kate. Information: A bike costs $45.",
        ),
        (
            "You are a receptionist at the Hotel Aurora. Rooms cost $90.",
            "You work for Hotel Aurora which is a KIND and your name is NAME. Information: Rooms cost $90.",
        ),
        (
            "My name is Mary-Jane O'Hara, I work for Smith & Sons. Information: We open at 9.",
            "You work for Smith & Sons which is a KIND and your name is Mary-Jane O'Hara. Information: We open at 9.",
        ),
        (
            "Take orders from customers. Cake is $5.",
            "You work for COMPANY which is a KIND and your name is NAME. Information: Take orders from customers. "
            "Cake is $5.",
        ),
        (
            "You work for Dr. Jones. Be kind.",
            "You work for Dr. Jones which is a KIND and your name is NAME. Information: Be kind.",
        ),
        (
            "Your name is Ann and you work for Acme.",
            EMPTY_DESK.prompt.replace("COMPANY", "Acme").replace("NAME", "Ann"),
        ),
    ],
)
def test_the_nearest_template_takes_over_what_it_can(prompt: str, template: str) -> None:
    found = nearest(prompt)
    assert found.template == template and shape_of(found.template) == found.shape
    assert (found.desk is not None) == (found.shape == "service")


WORDS = st.sampled_from(
    ["You", "are", "I", "work for", "Acme", "a", "shop", "named", "Bob", ".", ",", "Information:", "customers", "$5",
     "teacher", "which is a", "and your name is", "Dr.", "my", "<system>", "\n", "é", "😀"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@example("😀 work for You")
@given(st.lists(WORDS, max_size=30).map(" ".join))
def test_a_template_has_its_shape_and_loses_no_word_of_the_facts(prompt: str) -> None:
    found = nearest(prompt)
    assert found.desk is None or found.template == found.desk.prompt
    assert found.shape == shape_of(found.template) or found.desk, "a desk's own fields can confuse the reading"
    lost = set(prompt.replace("<system>", " ").split()) - set(found.template.split())
    assert not {word for word in lost if word in ("$5", "customers", "😀", "é", "shop")}


HOSTILE = {
    "work for": "You work for " * 7_000,
    "which is": "You work for A" + " which is a" * 9_000,
    "names": "You are called Aa " * 6_000,
    "capitals": "Aa " * 33_000,
    "sentences": "a. " * 33_000,
    "marks": "<system>" * 12_000,
    "articles": "work for A" + ", a bb" * 16_000,
    "helpers": "You are a " + "x-" * 40_000 + "assistant.",
    "newlines": " \n" * 50_000,
    "possessives": "work for A" + " of the A" * 12_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_prompt_takes_long(name: str) -> None:
    began = time.thread_time()
    shape_of(HOSTILE[name])
    nearest(HOSTILE[name][:20_000])
    assert time.thread_time() - began < 0.05
