"""Personas of the little world: facts, and the prompt that tells them in one of the three trained shapes.

In: a `random.Random`, or facts. Out: `Persona`.
Must not know: what is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TypeVar

from training.world.words import (
    CITIES,
    CLOSES,
    COLORS,
    COMPANIES,
    DAYS,
    DISCOUNTS,
    FOODS,
    HOBBIES,
    JOBS,
    KINDS,
    NAMES,
    OPENS,
    PRICES,
    PRODUCTS,
    WEEKDAYS,
    plural,
    with_article,
)

ASSISTANT = "You are a wise and friendly teacher. Answer questions or provide advice in a clear and engaging way."
CASUAL = "You enjoy having a good conversation."
_T = TypeVar("_T")
STYLES = {"service": 0.58, "casual": 0.27, "assistant": 0.12, "empty": 0.03}
MOST_ITEMS = 3


@dataclass(frozen=True)
class Persona:
    """Who the agent is; what is None or empty stands nowhere in the prompt and is not known.

    Attributes:
        style: service, casual, assistant or empty. items: products with their prices in dollars.
        closes, opens: full hours, PM and AM. days: delivery. discount: percent.
    """

    style: str
    prompt: str = ""
    name: str | None = None
    company: str | None = None
    kind: str | None = None
    items: tuple[tuple[str, int], ...] = ()
    closes: int | None = None
    opens: int | None = None
    closed: str | None = None
    city: str | None = None
    days: int | None = None
    discount: int | None = None
    hobby: str | None = None
    color: str | None = None
    food: str | None = None
    job: str | None = None

    def price(self, product: str) -> int | None:
        """What a product costs, or None where it is not sold."""
        return dict(self.items).get(product)


def draw_persona(rng: Random, style: str | None = None, asked: tuple[str, ...] = ()) -> Persona:
    """A persona at random; a service desk mostly sells some of the products that will be asked for."""
    style = style or rng.choices(list(STYLES), list(STYLES.values()))[0]
    if style == "service":
        return _service(rng, asked)
    if style == "casual":
        return _casual(rng)
    if style == "assistant":
        name = rng.choice(NAMES) if rng.random() < 0.4 else None
        return Persona(style, ASSISTANT + (f" Your name is {name}." if name else ""), name=name)
    return Persona("empty")


def _maybe(rng: Random, chance: float, choices: tuple[_T, ...]) -> _T | None:
    return rng.choice(choices) if rng.random() < chance else None


def _items(rng: Random, asked: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    count = rng.choices(range(MOST_ITEMS + 1), [0.05, 0.4, 0.35, 0.2])[0]
    wanted = [product for product in dict.fromkeys(asked) if rng.random() < 0.6]
    rng.shuffle(wanted)
    others = [product for product in rng.sample(PRODUCTS, MOST_ITEMS) if product not in asked]
    return tuple((product, rng.choice(tuple(PRICES))) for product in (wanted + others)[:count])


def _service(rng: Random, asked: tuple[str, ...]) -> Persona:
    name, company, kind = rng.choice(NAMES), rng.choice(COMPANIES), rng.choice(KINDS)
    items = _items(rng, asked)
    closes, opens = _maybe(rng, 0.7, tuple(CLOSES)), _maybe(rng, 0.4, tuple(OPENS))
    closed, city = _maybe(rng, 0.35, WEEKDAYS), _maybe(rng, 0.7, CITIES)
    days, discount = _maybe(rng, 0.6, tuple(DAYS)), _maybe(rng, 0.3, tuple(DISCOUNTS))
    facts = [_price_fact(rng, product, price) for product, price in items]
    facts += _hours_facts(rng, closes, opens, closed)
    if city:
        facts.append(rng.choice([f"Located in {city}.", f"We are in {city}.", f"Address: {city}."]))
    if days:
        unit = "day" if days == 1 else "days"
        facts.append(rng.choice([f"Delivery takes {days} {unit}.", f"Delivery: {days} {unit}."]))
    if discount:
        facts.append(rng.choice([f"Today {discount}% off.", f"There is a {discount}% discount."]))
    rng.shuffle(facts)
    prompt = f"You work for {company} which is {with_article(kind)} and your name is {name}."
    prompt += " Information: " + " ".join(facts) if facts else ""
    return Persona(
        "service", prompt, name, company, kind, items, closes, opens, closed, city, days, discount
    )  # fmt: skip


def _price_fact(rng: Random, product: str, price: int) -> str:
    return rng.choice(
        [
            f"A {product} costs ${price}.",
            f"The {product} costs {price} dollars.",
            f"We sell {plural(product)} for ${price}.",
            f"{product.capitalize()}: ${price}.",
        ]
    )


def _hours_facts(rng: Random, closes: int | None, opens: int | None, closed: str | None) -> list[str]:
    facts = []
    if closes and opens and rng.random() < 0.5:
        facts.append(rng.choice([f"Open from {opens} AM to {closes} PM.", f"Hours: {opens} AM to {closes} PM."]))
    else:
        if closes:
            facts.append(rng.choice([f"Open until {closes} PM.", f"We close at {closes} PM."]))
        if opens:
            facts.append(rng.choice([f"Open from {opens} AM.", f"We open at {opens} AM."]))
    if closed:
        facts.append(rng.choice([f"Closed on {closed}.", f"{closed}: closed."]))
    return facts


def _casual(rng: Random) -> Persona:
    name, city, hobby = _maybe(rng, 0.85, NAMES), _maybe(rng, 0.65, CITIES), _maybe(rng, 0.65, HOBBIES)
    color, food, job = _maybe(rng, 0.55, COLORS), _maybe(rng, 0.5, FOODS), _maybe(rng, 0.5, JOBS)
    facts = []
    if name:
        facts.append(rng.choice([f"Your name is {name}.", f"You are {name}."]))
    if city:
        facts.append(rng.choice([f"You live in {city}.", f"You are from {city}."]))
    if job:
        facts.append(rng.choice([f"You work as a {job}.", f"You are a {job}."]))
    if hobby:
        facts.append(rng.choice([f"You like {hobby}.", f"Your hobby is {hobby}.", f"You love {hobby}."]))
    if food:
        facts.append(rng.choice([f"Your favorite food is {food}.", f"You like to eat {food}."]))
    if color:
        facts.append(rng.choice([f"Your favorite color is {color}.", f"You like the color {color}."]))
    if rng.random() < 0.3:
        rng.shuffle(facts)
    return Persona(
        "casual", " ".join([CASUAL, *facts]), name, city=city, hobby=hobby, color=color, food=food, job=job
    )  # fmt: skip
