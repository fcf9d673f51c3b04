"""Into another network namespace. Must not know: who made it."""

from __future__ import annotations

import ctypes

CLONE_NEWNET = 0x40000000


def enter(descriptor: int) -> None:
    """The calling thread goes in; whatever it starts from now on is in there too."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
