"""A talk that was cut off can be taken up so many times by one grant, and then no more."""

from __future__ import annotations

from personaplex_app.web.returns import MOST_RETURNS, Returns


class Lot:
    """Grants that are worth something; `forgotten` in order."""

    def __init__(self, *grants: str) -> None:
        self.grants = set(grants)
        self.forgotten: list[str] = []

    def can_resume(self, grant: str) -> bool:
        return grant in self.grants

    def forget(self, grant: str) -> None:
        self.grants.discard(grant)
        self.forgotten.append(grant)


def test_a_grant_brings_its_talk_back_so_often_and_is_then_forgotten() -> None:
    lot = Lot("g")
    returns = Returns(lot)
    assert [returns.note("g") for _ in range(MOST_RETURNS)] == [True] * MOST_RETURNS and lot.forgotten == []
    assert not returns.note("g") and lot.forgotten == ["g"]
    assert not returns.note("g")


def test_each_grant_has_returns_of_its_own() -> None:
    lot = Lot("a", "b")
    returns = Returns(lot)
    assert all(returns.note(grant) for grant in "ab" * MOST_RETURNS)
    assert not returns.note("a") and lot.forgotten == ["a"] and lot.can_resume("b")


def test_a_grant_that_is_worth_nothing_is_none_and_is_not_remembered() -> None:
    lot = Lot("spent")
    returns = Returns(lot)
    assert not returns.note("never was") and lot.forgotten == []
    assert returns.note("spent")
    lot.grants = {"other"}
    assert not returns.note("spent") and returns.note("other")
    assert set(returns._counts) == {"other"}, "what strangers bring does not pile up"
