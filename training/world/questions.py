"""What people ask: wordings by intent, filled with slots.

In: `wordings.yaml`, a `random.Random`. Out: `Asked`.
Must not know: personas, answers.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from random import Random

import yaml

from training.world.words import CAPITALS, COUNTS, NAMES, PRODUCTS, SUMS, THING_COLORS, plural

SLOTS: dict[str, tuple[str, ...]] = {
    "product": PRODUCTS,
    "name": NAMES,
    "country": tuple(CAPITALS),
    "thing": tuple(THING_COLORS),
    "counted": tuple(COUNTS),
    "sum": tuple(f"{one} plus {other}" for one, other in SUMS),
}
SERVICE = "company kind sell price price_of have closes opens closed city delivery discount pay".split()
CASUAL = "live hobby color food job company".split()
GENERAL = "capital thing_color count sum".split()
ADVICE = [f"advice_{what}" for what in "sleep focus learn relax exam cook".split()]
SOCIAL = "hello how name about my_name joke robot can help hear repeat thanks bye story unknown".split()
BY_STYLE = {
    "service": SERVICE + SOCIAL + ["count", "sum"],
    "casual": CASUAL + SOCIAL + GENERAL,
    "assistant": GENERAL + ADVICE + SOCIAL,
    "empty": GENERAL + SOCIAL,
}
ELSEWHERE = 0.06  # how often somebody asks what belongs to another kind of persona


@dataclass(frozen=True)
class Intent:
    """One thing that can be meant, and how it is said."""

    name: str
    trained: tuple[str, ...]
    held_out: tuple[str, ...]
    slot: str | None
    weight: int


@dataclass(frozen=True)
class Asked:
    """A sentence somebody says: what it means, the slot's filling, the words."""

    intent: str
    slot: str
    text: str


@functools.cache
def intents() -> dict[str, Intent]:
    """Every intent by name, as `wordings.yaml` has it."""
    raw = yaml.safe_load((Path(__file__).parent / "wordings.yaml").read_text(encoding="utf-8"))
    return {
        name: Intent(
            name,
            _sentences(entry["trained"]),
            _sentences(entry["held_out"]),
            entry.get("slot"),
            int(entry.get("weight", 1)),
        )
        for name, entry in raw.items()
    }


def _sentences(text: str) -> tuple[str, ...]:
    return tuple(sentence.strip() for sentence in text.split("|"))


def fill(wording: str, slot: str) -> str:
    """The wording with its slot filled, first letter as it is."""
    return wording.replace("{xs}", plural(slot) if slot else "").replace("{x}", slot)


def ask(intent: str, rng: Random, *, held_out: bool = False, slot: str | None = None) -> Asked:
    """One intent in a drawn wording; a slot is drawn where none is given."""
    chosen = intents()[intent]
    if chosen.slot and slot is None:
        slot = rng.choice(SLOTS[chosen.slot])
    wording = rng.choice(chosen.held_out if held_out else chosen.trained)
    return Asked(intent, slot or "", fill(wording, slot or ""))


def draw_question(style: str, rng: Random, *, held_out: bool = False) -> Asked:
    """A question as this kind of persona is asked, seldom one that belongs to another kind."""
    kind = rng.choice(list(BY_STYLE)) if rng.random() < ELSEWHERE else style
    names = BY_STYLE[kind]
    name = rng.choices(names, [intents()[one].weight for one in names])[0]
    return ask(name, rng, held_out=held_out)


def user_sentences(*, held_out: bool = False) -> list[Asked]:
    """Everything that can be said to the persona, every slot filled every way."""
    said: dict[str, Asked] = {}
    for intent in intents().values():
        for wording in intent.held_out if held_out else intent.trained:
            for slot in SLOTS[intent.slot] if intent.slot else ("",):
                text = fill(wording, slot)
                said.setdefault(text, Asked(intent.name, slot, text))
    return list(said.values())
