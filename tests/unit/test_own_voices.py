"""Own voices are their owners' alone, for an hour, so many and so large as is set."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from personaplex_app.errors import InvalidInput, NoCapacity
from personaplex_app.voices import check_voice_name, is_own_voice
from personaplex_app.web.own_voices import KEPT_SECONDS, MOST_OF_ONE, OwnVoices


@dataclass(frozen=True)
class Learned:
    bytes: int = 1000


class World:
    def __init__(self, **limits: int) -> None:
        self.now = 1000.0
        self.voices = OwnVoices(lambda: self.now, **limits)

    def keep(self, visitor: str = "anna") -> str:
        return self.voices.keep(visitor, Learned(), 7.5, ("a note",)).name


def test_a_voice_is_found_by_its_owner_under_a_name_that_nobody_guesses() -> None:
    world = World()
    names = {world.keep(f"visitor {number}") for number in range(100)}
    assert len(names) == 100 and all(is_own_voice(check_voice_name(name)) for name in names)
    assert all(len(name) >= 20 for name in names)
    name = world.keep()
    voice = world.voices.find("anna", name)
    assert (voice.seconds, voice.notes, world.voices.left_seconds(voice)) == (7.5, ("a note",), KEPT_SECONDS)
    assert [one.name for one in world.voices.of("anna")] == [name]


def sentence_of(world: World, visitor: str | None, name: str) -> str:
    with pytest.raises(InvalidInput) as refused:
        world.voices.find(visitor, name)
    assert refused.value.code == "unknown_voice"
    return refused.value.sentence.replace(name, "NAME")


def test_another_s_a_deleted_an_old_and_a_voice_that_never_was_are_refused_in_the_same_words() -> None:
    world = World()
    old = world.keep("anna")
    world.now += KEPT_SECONDS - 1
    theirs, deleted = world.keep("bert"), world.keep("anna")
    world.voices.delete("anna", deleted)
    world.now += 1
    never = "own-0123456789abcdef"
    said = {sentence_of(world, "anna", name) for name in (theirs, deleted, old, never)}
    said |= {sentence_of(world, None, theirs), sentence_of(world, None, never)}
    assert len(said) == 1
    assert world.voices.find("bert", theirs), "and the other's is still there"


def test_nobody_deletes_what_is_another_s() -> None:
    world = World()
    name = world.keep("anna")
    for visitor in ("bert", None, ""):
        with pytest.raises(InvalidInput):
            world.voices.delete(visitor, name)
    assert world.voices.find("anna", name)


def test_names_of_other_voices_are_none_of_its_business() -> None:
    voices = World().voices
    for name in ("none", "NATF0", "ownX"):
        voices.check("anna", name)
    with pytest.raises(InvalidInput):
        voices.check("anna", "own-NATF0")


def test_who_has_as_many_as_one_may_have_is_told_so_until_one_is_gone() -> None:
    world = World()
    names = [world.keep() for _ in range(MOST_OF_ONE)]
    for ask in (lambda: world.voices.check_room("anna"), world.keep):
        with pytest.raises(NoCapacity, match="delete one first") as refused:
            ask()
        assert refused.value.code == "too_many_voices"
    world.keep("bert")
    world.voices.delete("anna", names[0])
    world.keep()


def test_what_is_too_old_is_dropped_from_memory() -> None:
    world = World()
    world.keep()
    world.now += KEPT_SECONDS / 2
    world.keep("bert")
    world.now += KEPT_SECONDS / 2
    world.voices.sweep()
    assert len(world.voices) == 1 and world.voices.bytes == 1000
    assert not world.voices.of("anna") and len(world.voices.of("bert")) == 1


def test_all_voices_together_stay_below_the_bound_and_the_oldest_goes_first() -> None:
    world = World(most_bytes=10_000)
    names = [world.keep(f"visitor {number}") for number in range(25)]
    assert world.voices.bytes == 10_000
    kept = [name for number, name in enumerate(names) if world.voices.of(f"visitor {number}")]
    assert kept == names[-10:]


def test_a_voice_larger_than_the_bound_is_alone() -> None:
    world = World(most_bytes=10)
    world.keep("anna")
    name = world.keep("bert")
    assert len(world.voices) == 1 and world.voices.find("bert", name)


def test_a_talk_that_begins_speaks_with_an_own_voice_if_that_is_still_there() -> None:
    world = World()
    name = world.keep()
    assert world.voices.learned("anna", name) is world.voices.find("anna", name).learned
    assert world.voices.learned("anna", "NATF0") is None
    with pytest.raises(InvalidInput):
        world.voices.learned("bert", name)
    world.now += KEPT_SECONDS
    with pytest.raises(InvalidInput):
        world.voices.learned("anna", name)
