"""What is right to say: every agent sentence of the little world, and which of them answer a question.

In: a `Persona`, an `Asked`, what was said last. Out: answers, each a list of whole sentences.
Must not know: sound, time.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from training.world import words as w
from training.world.personas import Persona
from training.world.questions import Asked

Answer = list[str]

HELLO = ("Hello!", "Hi there!")
HELP = "How can I help you?"
HOW_ARE_YOU = "How are you today?"
UNKNOWN = ("I am sorry, I do not know that.", "Sorry, that is something I do not know.")
NOT_HERE = "I am sorry, we do not have that."
NO_DISCOUNT = "I am sorry, there is no discount."
NOTHING_YET = "I have not said anything yet."
YES = "Yes, we do."
AI = "I am an AI persona of a small demonstration model."
GO_AHEAD = "Okay, go ahead."
MM = "Uh huh."
ASSISTANT = "I am a friendly assistant."
PAY = "You can pay by card or in cash."
STORY = ("That is very interesting.", "Thank you for telling me that.")
JOKES = (
    ["Why did the robot go home?", "Its battery was low."],
    ["What do you call a sleeping bull?", "A bulldozer."],
    ["Why was the math book sad?", "It had too many problems."],
)
CAN = {
    "service": "I can tell you about our products, prices and opening hours.",
    "casual": "We can talk about food, hobbies and colors.",
    "assistant": "You can ask me about capitals, numbers or good advice.",
    "empty": "You can ask me about capitals, numbers or good advice.",
}
PLAIN = {
    "how": "I am doing great, thank you.",
    "thanks": "You are welcome.",
    "bye": "Goodbye, have a nice day!",
    "hear": "Yes, I can hear you.",
    "help": "Of course, what would you like to know?",
    "robot": AI,
    "stop": GO_AHEAD,
}


def my_name(name: str) -> str:
    return f"My name is {name}."


def nice_to_meet(name: str) -> str:
    return f"Nice to meet you, {name}."


def calling(company: str) -> str:
    return f"Thank you for calling {company}."


def work_for(company: str) -> str:
    return f"I work for {company}."


def we_are(kind: str) -> str:
    return f"We are {w.with_article(kind)}."


def we_sell(product: str) -> str:
    return f"We sell {w.plural(product)}."


def costs(product: str, price: int) -> str:
    return f"The {product} costs {w.PRICES[price]} dollars."


def open_until(hour: int) -> str:
    return f"We are open until {w.CLOSES[hour]} P M."


def open_from(hour: int) -> str:
    return f"We open at {w.OPENS[hour]} A M."


def closed_on(day: str) -> str:
    return f"We are closed on {day}."


def percent_off(percent: int) -> str:
    return f"Yes, there is {w.DISCOUNTS[percent]} percent off today."


def we_are_in(city: str) -> str:
    return f"We are in {city}."


def i_live_in(city: str) -> str:
    return f"I live in {city}."


def takes(days: int) -> str:
    return f"Delivery takes {w.DAYS[days]}."


def i_like(hobby: str) -> str:
    return f"I like {hobby}."


def favorite_color(color: str) -> str:
    return f"My favorite color is {color}."


def favorite_food(food: str) -> str:
    return f"My favorite food is {food}."


def work_as(job: str) -> str:
    return f"I work as a {job}."


def capital_of(country: str) -> str:
    return f"The capital of {country} is {w.CAPITALS[country]}."


def thing_is(thing: str) -> str:
    return f"The {thing} is {w.THING_COLORS[thing]}."


def there_are(counted: str) -> str:
    return f"There are {w.COUNTS[counted]} {counted.replace(' are', '')}."


def sum_is(sum_words: str) -> str:
    one, other = sum_words.split(" plus ")
    return f"{one.capitalize()} plus {other} is {w.SUMS[one, other]}."


def agent_sentences() -> list[str]:
    """Every sentence that the persona can say, each recited whole."""
    said = [*HELLO, HELP, HOW_ARE_YOU, *UNKNOWN, NOT_HERE, NO_DISCOUNT, NOTHING_YET, YES, MM, ASSISTANT, PAY, *STORY]
    said += [line for joke in JOKES for line in joke] + [*CAN.values(), *PLAIN.values(), *w.ADVICE.values()]
    said += [make(name) for name in w.NAMES for make in (my_name, nice_to_meet)]
    said += [make(company) for company in w.COMPANIES for make in (calling, work_for)]
    said += [we_are(kind) for kind in w.KINDS] + [we_sell(product) for product in w.PRODUCTS]
    said += [costs(product, price) for product in w.PRODUCTS for price in w.PRICES]
    said += [open_until(hour) for hour in w.CLOSES] + [open_from(hour) for hour in w.OPENS]
    said += [closed_on(day) for day in w.WEEKDAYS] + [percent_off(percent) for percent in w.DISCOUNTS]
    said += [make(city) for city in w.CITIES for make in (we_are_in, i_live_in)] + [takes(days) for days in w.DAYS]
    said += [i_like(hobby) for hobby in w.HOBBIES] + [favorite_color(color) for color in w.COLORS]
    said += [favorite_food(food) for food in w.FOODS] + [work_as(job) for job in w.JOBS]
    said += [capital_of(country) for country in w.CAPITALS] + [thing_is(thing) for thing in w.THING_COLORS]
    said += [there_are(counted) for counted in w.COUNTS] + [sum_is(f"{one} plus {other}") for one, other in w.SUMS]
    return list(dict.fromkeys(said))


def greeting(persona: Persona, rng: Random) -> Answer:
    """How the persona opens a talk by itself."""
    if persona.company and persona.name:
        return [calling(persona.company), my_name(persona.name), HELP]
    middle = [my_name(persona.name)] if persona.name and rng.random() < 0.5 else []
    return [rng.choice(HELLO), *middle, HOW_ARE_YOU]


def right_answers(persona: Persona, asked: Asked, last: Answer | None = None) -> list[Answer]:
    """All answers that are right; `last` is what the persona said before."""
    intent, slot = asked.intent, asked.slot
    if intent in PLAIN:
        return [[PLAIN[intent]]]
    if intent in _BY_SLOT:
        return [[_BY_SLOT[intent](slot)]]
    if intent.startswith("advice_"):
        return [[w.ADVICE[intent.removeprefix("advice_")]]]
    if intent in _SMALL_TALK:
        return _SMALL_TALK[intent](persona)
    if intent == "repeat":
        return [last or [NOTHING_YET]]
    known = _FACTS[intent](persona, slot) if intent in _FACTS else None
    return [known] if known else [[sorry] for sorry in UNKNOWN]


def answer(persona: Persona, asked: Asked, last: Answer | None, rng: Random) -> Answer:
    """One right answer."""
    return rng.choice(right_answers(persona, asked, last))


_BY_SLOT: dict[str, Callable[[str], str]] = {
    "my_name": nice_to_meet,
    "capital": capital_of,
    "thing_color": thing_is,
    "count": there_are,
    "sum": sum_is,
}


def _hello(persona: Persona) -> list[Answer]:
    then = HELP if persona.style == "service" else HOW_ARE_YOU
    return [[one, then] for one in HELLO]


def _about(persona: Persona) -> list[Answer]:
    told = [my_name(persona.name)] if persona.name else []
    told += [work_for(persona.company)] if persona.company else []
    told += [we_are(persona.kind)] if persona.kind else []
    told += [ASSISTANT] if persona.style == "assistant" else []
    told += [i_live_in(persona.city)] if persona.city and persona.style == "casual" else []
    told += [work_as(persona.job)] if persona.job else []
    told += [i_like(persona.hobby)] if persona.hobby else []
    return [told or [AI]]


_SMALL_TALK: dict[str, Callable[[Persona], list[Answer]]] = {
    "hello": _hello,
    "about": _about,
    "joke": lambda persona: [list(joke) for joke in JOKES],
    "story": lambda persona: [[reaction] for reaction in STORY],
    "can": lambda persona: [[CAN[persona.style]]],
}


def _company(p: Persona) -> Answer | None:
    if p.company:
        return [work_for(p.company)]
    return [ASSISTANT] if p.style == "assistant" else _job(p)


def _job(p: Persona) -> Answer | None:
    if p.job:
        return [work_as(p.job)]
    return [work_for(p.company)] if p.company else None


def _price_of(p: Persona, product: str) -> Answer | None:
    price = p.price(product)
    if price is not None:
        return [costs(product, price)]
    return [NOT_HERE] if p.style == "service" else None


def _have(p: Persona, product: str) -> Answer | None:
    price = p.price(product)
    return _price_of(p, product) if price is None else [YES, costs(product, price)]


def _city(p: Persona) -> Answer | None:
    if p.city is None:
        return None
    return [we_are_in(p.city) if p.style == "service" else i_live_in(p.city)]


def _discount(p: Persona) -> Answer | None:
    if p.discount:
        return [percent_off(p.discount)]
    return [NO_DISCOUNT] if p.style == "service" else None


_FACTS: dict[str, Callable[[Persona, str], Answer | None]] = {
    "name": lambda p, _: [my_name(p.name)] if p.name else None,
    "company": lambda p, _: _company(p),
    "kind": lambda p, _: [we_are(p.kind)] if p.kind else None,
    "sell": lambda p, _: [we_sell(product) for product, _price in p.items] or None,
    "price": lambda p, _: [costs(product, price) for product, price in p.items] or None,
    "price_of": _price_of,
    "have": _have,
    "closes": lambda p, _: [open_until(p.closes)] if p.closes else None,
    "opens": lambda p, _: [open_from(p.opens)] if p.opens else None,
    "closed": lambda p, _: [closed_on(p.closed)] if p.closed else None,
    "city": lambda p, _: _city(p),
    "live": lambda p, _: _city(p),
    "delivery": lambda p, _: [takes(p.days)] if p.days else None,
    "discount": lambda p, _: _discount(p),
    "pay": lambda p, _: [PAY] if p.style == "service" else None,
    "hobby": lambda p, _: [i_like(p.hobby)] if p.hobby else None,
    "color": lambda p, _: [favorite_color(p.color)] if p.color else None,
    "food": lambda p, _: [favorite_food(p.food)] if p.food else None,
    "job": lambda p, _: _job(p),
}
