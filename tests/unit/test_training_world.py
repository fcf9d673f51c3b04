"""The little world of the miniature: what is asked, what is right to say, and when each side speaks."""

from __future__ import annotations

import re
from collections import Counter
from random import Random

import pytest

from training.talks.agent import AgentSide
from training.talks.timing import RESPONSE, YIELD
from training.talks.tracks import Track, TrackMaker, Turn, track_from_json
from training.world.answers import UNKNOWN, agent_sentences, greeting, right_answers
from training.world.personas import ASSISTANT, CASUAL, STYLES, Persona, draw_persona
from training.world.questions import BY_STYLE, Asked, ask, draw_question, intents, user_sentences

KATE = Persona(
    "service",
    name="Kate",
    company="Blue River",
    kind="bike shop",
    items=(("bike", 45),),
    closes=6,
    opens=8,
    closed="Sunday",
    city="Denver",
    days=3,
    discount=10,
)
FEWEST = {"hello": 16, "bye": 16, "thanks": 16, "stop": 12, "backchannel": 12, "unknown": 90}
FEWEST |= {"price_of": 14, "have": 14, "capital": 14, "my_name": 12, "thing_color": 12, "count": 12, "sum": 12}
FEWEST_OTHERWISE = 24


def _plain(sentence: str) -> str:
    """Lower-cased, without punctuation; a slot stays."""
    return " ".join(re.sub(r"[^a-z{} ]", "", sentence.lower()).split())


def test_there_are_enough_intents_and_few_enough_sentences() -> None:
    assert len(intents()) >= 20
    assert 750 <= len(agent_sentences()) <= 1500
    assert len(user_sentences()) > 2000


@pytest.mark.parametrize("name", list(intents()))
def test_every_intent_is_worded_in_many_ways(name: str) -> None:
    assert len(intents()[name].trained) >= FEWEST.get(name, FEWEST_OTHERWISE)


def test_a_wording_means_one_thing_and_stands_once() -> None:
    wordings = Counter(_plain(one) for intent in intents().values() for one in intent.trained + intent.held_out)
    assert [one for one, times in wordings.items() if times > 1] == []


def test_a_filled_wording_means_one_thing_and_stands_once() -> None:
    said = Counter(_plain(asked.text) for held_out in (False, True) for asked in user_sentences(held_out=held_out))
    assert [one for one, times in said.items() if times > 1] == []


def test_sentences_are_short_and_can_be_spoken() -> None:
    texts = [asked.text for held_out in (False, True) for asked in user_sentences(held_out=held_out)]
    assert [text for text in texts if len(text.split()) > 14 or not re.fullmatch(r"[A-Za-z'.,?! ]+", text)] == []


def test_held_out_wordings_are_never_heard_in_training() -> None:
    trained = {asked.text for asked in user_sentences()}
    held_out = {asked.text for asked in user_sentences(held_out=True)}
    assert len(held_out) > 200 and not trained & held_out
    rng = Random(0)
    assert {draw_question("service", rng, held_out=True).text for _ in range(300)} <= held_out


def test_every_answer_consists_of_sentences_that_are_said() -> None:
    rng, said = Random(1), set(agent_sentences())
    for style in STYLES:
        for _ in range(60):
            persona = draw_persona(rng, style, ("bike",))
            assert set(greeting(persona, rng)) <= said
            for name in intents():
                if name == "backchannel":
                    continue
                for answer in right_answers(persona, ask(name, rng)):
                    assert answer and set(answer) <= said, (persona, name)


@pytest.mark.parametrize(
    ("intent", "slot", "right"),
    [
        ("name", "", "My name is Kate."),
        ("price_of", "bike", "The bike costs forty five dollars."),
        ("price_of", "cake", "I am sorry, we do not have that."),
        ("have", "bike", "Yes, we do. The bike costs forty five dollars."),
        ("closes", "", "We are open until six P M."),
        ("opens", "", "We open at eight A M."),
        ("closed", "", "We are closed on Sunday."),
        ("city", "", "We are in Denver."),
        ("delivery", "", "Delivery takes three days."),
        ("discount", "", "Yes, there is ten percent off today."),
        ("robot", "", "I am an AI persona of a small demonstration model."),
        ("my_name", "Sam", "Nice to meet you, Sam."),
        ("sum", "two plus three", "Two plus three is five."),
        ("count", "days are in a week", "There are seven days in a week."),
        ("hobby", "", UNKNOWN[0]),
    ],
)
def test_answers_follow_the_facts(intent: str, slot: str, right: str) -> None:
    assert right.split() in [" ".join(one).split() for one in right_answers(KATE, Asked(intent, slot, ""))]


def test_the_prompt_tells_every_fact_in_one_of_the_trained_shapes() -> None:
    rng = Random(2)
    for _ in range(300):
        persona = draw_persona(rng)
        begins = {"service": "You work for ", "casual": CASUAL, "assistant": ASSISTANT, "empty": ""}[persona.style]
        assert persona.prompt.startswith(begins)
        facts = [persona.name, persona.company, persona.city, persona.closed, persona.hobby, persona.color]
        facts += [persona.food, persona.job, *(str(price) for _, price in persona.items)]
        facts += [str(number) for number in (persona.closes, persona.opens, persona.days, persona.discount) if number]
        assert all(fact in persona.prompt for fact in facts if fact)


def _maker() -> TrackMaker:
    return TrackMaker(
        lambda text, rng: (len(text), 24_000 + 1000 * len(text), 1.0), lambda sentence: 12 + len(sentence)
    )


def test_tracks_are_talks_of_one_caller_in_order() -> None:
    rng, kinds = Random(3), set()
    for _ in range(40):
        track = _maker().draw(rng, 2000)
        assert len(track.turns) > 10
        assert all(one.end <= other.start for one, other in zip(track.turns, track.turns[1:], strict=False))
        assert track.turns[-1].end < 2000
        assert track_from_json(track.as_json()) == track
        kinds |= {turn.intent for turn in track.turns}
    assert {"stop", "backchannel", "price_of", "my_name"} <= kinds
    assert all(name in intents() for names in BY_STYLE.values() for name in names)


def _turn(intent: str, start: int, end: int, *, slot: str = "", nod: bool = False) -> Turn:
    return Turn(intent, slot, "", 0, start, end, 0, nod)


def _lines(*turns: Turn, greeted: bool = False):
    side = AgentSide(lambda sentence, rng: (0, 40), Random(4))
    return side.lines(Track("service", greeted, 500, turns), KATE)


def test_answers_begin_soon_after_the_question() -> None:
    (line,) = _lines(_turn("name", 10, 30))
    assert RESPONSE[0] <= line.start - 30 <= RESPONSE[1] and line.end == line.start + 40


def test_an_interrupted_agent_is_silent_in_time_and_then_answers() -> None:
    first, second = _lines(_turn("name", 10, 30), _turn("city", 50, 70))
    assert YIELD[0] <= first.end - 50 <= YIELD[1] and YIELD[1] * 0.08 <= 1.0
    assert second.text == "We are in Denver." and second.start >= 70


def test_a_nod_cuts_nothing_and_gets_no_answer() -> None:
    (line,) = _lines(_turn("name", 10, 30), _turn("backchannel", 50, 60, nod=True))
    assert line.end == line.start + 40


def test_the_persona_opens_a_greeted_talk_and_repeats_what_it_said() -> None:
    greeted = _lines(_turn("repeat", 200, 230), greeted=True)
    assert [line.text for line in greeted[:3]] == [line.text for line in greeted[3:]]
    assert greeted[0].text == "Thank you for calling Blue River."
