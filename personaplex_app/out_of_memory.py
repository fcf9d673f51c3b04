"""Out of memory, told in one sentence with what to start with instead; on a GPU or in the host, wherever it happens.

In: an error, what was being done, the next smaller plan. Out: a `ServerFault`. Imports nothing heavy.
Must not know: torch, plans, who asks.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator

from personaplex_app.errors import ServerFault

CODE = "out_of_memory"
NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "cublas_status_alloc_failed")
FEWER = "fewer --slots, --kv-cache int8 or --precision int8 (on a CPU: --checkpoint demo or --precision bfloat16)"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that host or GPU memory has run out."""
    words = str(error).lower()
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(one in words for one in NO_MEMORY)
    )


def memory_sentence(what: str, smaller: str = "") -> str:
    """What people read. what: what happened, `The memory ran out ...`. smaller: flags of the next smaller plan."""
    return f"{what}. Start with {smaller or FEWER}, or end other programs that need the memory."


def smaller_plan(stepper: object) -> str:
    """The flags of what needs less memory than a stepper: the plan below its own, or what it was given to say."""
    return str(getattr(getattr(stepper, "plan", None), "smaller", "") or getattr(stepper, "smaller", ""))


@contextlib.contextmanager
def memory_told(doing: str, smaller: Callable[[], str] = lambda: "") -> Iterator[None]:
    """Whatever runs out of memory in here ends as a ServerFault (code `out_of_memory`) in words.

    Args:
        doing: `while the model was loaded`. smaller: asked for the flags of the next smaller plan, if need be.
    """
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise ServerFault(memory_sentence(f"The memory ran out {doing}", smaller()), code=CODE) from None


def log_fault(log: logging.Logger, error: BaseException, what: str, smaller: str = "") -> None:
    """A fault for the operator: one line where memory ran out, else with the traceback."""
    if is_out_of_memory(error):
        log.error("%s: %s", what, memory_sentence("the memory ran out", smaller))
    else:
        log.error("%s", what, exc_info=error)
