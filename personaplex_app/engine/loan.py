"""A slot lent to an errand while nobody else wants it: whoever comes gets it back at once.

In: a tenancy. Out: the slot, or NoCapacity once it was taken back. It belongs to the tick thread, all but `wanted`.
Must not know: what an errand does with it, steppers.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from personaplex_app.engine.slots import Tenancy
from personaplex_app.errors import NoCapacity

TAKEN_BACK = "Somebody came to talk meanwhile. Try again in a moment."


class Loan:
    """Use it as a context manager, and ask for the slot anew after every piece.

    Args:
        end: wipes the slot and gives it back; called once.
    Attributes:
        wanted: set by a visitor, under the roster's lock.
    """

    def __init__(self, tenancy: Tenancy, end: Callable[[Loan], None]) -> None:
        self.tenancy = tenancy
        self.wanted = False
        self._end = end
        self._over = False

    @property
    def slot(self) -> int:
        """The slot; raises NoCapacity where it was taken back."""
        if self._over:
            raise NoCapacity(TAKEN_BACK)
        return self.tenancy.slot

    def end(self) -> None:
        """It is lent no longer, however often it is said."""
        if not self._over:
            self._over = True
            self._end(self)

    def __enter__(self) -> Loan:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()
