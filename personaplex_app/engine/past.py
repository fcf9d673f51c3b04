"""How much of the model's window a talk has used, and how often it was read anew.

In: the window, how long the prompt is, where the slot stands after each step. Out: plain numbers.
Must not know: steppers, the web. The tick thread writes, the web's reads.
"""

from __future__ import annotations

from dataclasses import dataclass

from personaplex_app.window import Window


@dataclass
class Past:
    """One talk's.

    Attributes:
        window: None where nothing is remembered. prompt: positions that the prompt took.
        used: positions so far, since the last renewal where there was one; more than the window holds once it slides.
        renewals: how often a past too long for the model was replaced by a shorter one.
    """

    window: Window | None = None
    prompt: int = 0
    used: int = 0
    renewals: int = 0

    def __post_init__(self) -> None:
        self.used = max(self.used, self.prompt)

    def stands_at(self, position: int) -> None:
        """Where the talk's slot stands after a step."""
        self.renewals += position < self.used
        self.used = position

    @property
    def overflows(self) -> bool:
        """Whether the oldest is forgotten by now, a position a frame."""
        return self.window is not None and self.window.kept_frames is None and self.used > self.window.positions

    @property
    def forgot_prompt(self) -> bool:
        """Whether nothing of the prompt is left in the window."""
        return self.window is not None and self.overflows and self.used - self.window.positions >= self.prompt
