"""How long a talk may last, and how long it may stay silent: warned first, then ended. Pure.

In: when the visitor spoke. Out: notices, each once. Must not know: sound, the web.
"""

from __future__ import annotations

from dataclasses import dataclass

NEVER = float("inf")


@dataclass(frozen=True)
class CallLimits:
    """Seconds without the visitor's speech, and seconds of the whole talk, until a warning and until the end."""

    idle_warning_seconds: float = 60.0
    idle_end_seconds: float = 90.0
    call_seconds: float = 1800.0
    call_warning_seconds: float = 60.0


@dataclass(frozen=True)
class Notice:
    """What to say; `over`: the talk ends now. `seconds` are left otherwise."""

    code: str
    sentence: str
    seconds: float = 0.0
    over: bool = False


class CallClock:
    """One talk's clock.

    Args:
        began: when the talk began, on the caller's clock; for a resumed talk, so much earlier as it had lasted.

    Attributes:
        warned_of_idle: whether the visitor was asked to say something, and has not since.
    """

    def __init__(self, limits: CallLimits, began: float, now: float) -> None:
        self._limits = limits
        self._began = began
        self._spoke_at = now
        self.warned_of_idle = False
        self._warned_of_limit = False

    def spoke(self, now: float) -> None:
        """The visitor speaks."""
        self._spoke_at = now
        self.warned_of_idle = False

    def silent_seconds(self, now: float) -> float:
        """How long the visitor has said nothing."""
        return now - self._spoke_at

    def lasted_seconds(self, now: float) -> float:
        """How long the talk has lasted."""
        return now - self._began

    def check(self, now: float) -> Notice | None:
        """What is due now: an end, else a warning that has not been given."""
        return self._limit(now) or self._idle(now)

    def _limit(self, now: float) -> Notice | None:
        limits, left = self._limits, self._limits.call_seconds - self.lasted_seconds(now)
        if left <= 0:
            return Notice("limit", f"The talk has reached its {_length(limits.call_seconds)}.", over=True)
        if left <= limits.call_warning_seconds and not self._warned_of_limit:
            self._warned_of_limit = True
            sentence = f"A talk here lasts {_length(limits.call_seconds)} at most: {left:.0f} s are left."
            return Notice("limit", sentence, left)
        return None

    def _idle(self, now: float) -> Notice | None:
        limits, silent = self._limits, self.silent_seconds(now)
        left = limits.idle_end_seconds - silent
        if left <= 0:
            return Notice("idle", f"Nothing was said for {limits.idle_end_seconds:.0f} s.", over=True)
        if silent >= limits.idle_warning_seconds and not self.warned_of_idle:
            self.warned_of_idle = True
            return Notice("idle", f"Are you still there? Say something, or the talk ends in {left:.0f} s.", left)
        return None


def _length(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} seconds"
