"""The planner: which precision, how many lines and how wide a past a GPU carries in real time, or why none.

In: a card, a model's sizes, wishes. Out: a `Plan`, or InvalidInput in words with numbers and the next thing that works.
Must not know: torch, the model's code, flags' parsing. It predicts; the true step is measured at start-up.

A frame's time is what it reads over the bandwidth that the kernels reach, and what waits for launches whatever is
read; memory is what the weights, every line's full window, the codec and the kernels' working room take. The window is
never shortened: the model garbles then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from personaplex_app.audio import FRAME_MS as EXACT_FRAME_MS
from personaplex_app.cards import GIB, Card
from personaplex_app.errors import InvalidInput
from personaplex_app.plan_costs import (
    OFFLOAD_SLOTS,
    PRECISIONS,
    Layout,
    ModelSizes,
    copy_bytes,
    frame_ms,
    memory_parts,
    most_prompt_bytes,
)

AUTO = "auto"
FRAME_MS = round(EXACT_FRAME_MS)
TARGET_MS = 40.0  # lines that we declare keep the median frame below this: the others' starts and a busy host fit in
MOST_UNASKED_SLOTS = 32  # one server process was never measured with more callers; --slots asks for more
FEW_SLOTS = 4  # beyond these, room for the copy of a talk that breaks off is worth more than another line
OLDEST = (8, 0)  # bfloat16's tensor cores, and the compiled kernels, want Ampere or newer
WORDS = {"float32": "float32", "bfloat16": "bfloat16", "int8": "8-bit weights", "int4": "4-bit weights"}
TIGHT = f"Tight: above our line of {TARGET_MS:.0f} ms a frame, so a busy machine will be heard as gaps."
COARSE = "4-bit weights are the last resort: nothing here proves that they speak as well."
ANY_TIME = float("inf")


@dataclass(frozen=True)
class Wishes:
    """What is asked for; `auto` and None leave it to the planner.

    Attributes:
        precision: `auto`, `float32`, `bfloat16`, `int8` or `int4`. kv_cache: `auto`, `model` or `int8`.
        plain: without the compiled kernels. live: a frame must be done within its 80 ms.
        broken: the compiled kernels have failed here, so nothing that needs them is offered.
    """

    precision: str = AUTO
    kv_cache: str = AUTO
    slots: int | None = None
    plain: bool = False
    live: bool = True
    broken: bool = False


@dataclass(frozen=True)
class Plan:
    """What to run on a card, and what it is predicted to cost.

    Attributes:
        frame_ms: with every line taken and every window full. first_ms: with one line taken, at its beginning.
        parts: bytes of GPU memory by what takes them. prompt_bytes: how much of it known prompts may take.
        remark: what whoever runs it should know.
    """

    card: Card
    sizes: ModelSizes
    layout: Layout
    frame_ms: float
    first_ms: float
    parts: dict[str, int]
    prompt_bytes: int
    remark: str = ""

    @property
    def bytes(self) -> int:
        """GPU memory in all, CUDA's own context aside."""
        return sum(self.parts.values())

    @property
    def words(self) -> str:
        """The whole plan for people, with its numbers."""
        parts = ", ".join(f"{name} {size / GIB:.1f}" for name, size in self.parts.items())
        lines = self.layout.slots
        alone = f", {self.first_ms:.0f} ms when one begins to talk" if lines > 1 else ""
        said = (
            f"{self.sizes.name} as {layout_words(self.layout)} on {self.card.name}: {self.bytes / GIB:.1f} of "
            f"{self.card.free_bytes / GIB:.1f} GiB ({parts}); a frame of {FRAME_MS} ms will take about "
            f"{self.frame_ms:.0f} ms with {'every line taken and ' if lines > 1 else ''}the window full{alone}."
        )
        return " ".join(part for part in (said, self.remark, self.card.remark) if part)

    @property
    def smaller(self) -> str:
        """The flags of the next smaller plan."""
        return smaller_than(self.layout, self.card.capability)


def smaller_than(layout: Layout, capability: tuple[int, int] = OLDEST) -> str:
    """The flags of the next smaller layout that a card of this capability can run, in words where there is none."""
    if layout.slots > 1:
        return f"--slots {layout.slots - 1}"
    if layout.kv_cache == "model" and not layout.plain:
        return "--kv-cache int8"
    following = {"float32": "bfloat16"} if layout.plain else {"float32": "bfloat16", "bfloat16": "int8", "int8": "int4"}
    precision = following.get(layout.precision) if capability >= OLDEST else None
    return f"--precision {precision}" if precision else "--cpu-offload (not in real time), or a larger GPU"


def layout_words(layout: Layout) -> str:
    """`8-bit weights, 4 lines, 8-bit past`."""
    lines = "1 line" if layout.slots == 1 else f"{layout.slots} lines"
    return f"{WORDS[layout.precision]}, {lines}{', 8-bit past' if layout.kv_cache == 'int8' else ''}"


def make_plan(card: Card, sizes: ModelSizes, wishes: Wishes | None = None) -> Plan:
    """The best plan that meets the wishes: exact weights before more lines, lines before nothing.

    Raises InvalidInput with numbers and, where there is one, the nearest thing that works.
    """
    wishes = wishes or Wishes()
    if card.capability < OLDEST and wishes.precision != "float32":
        raise InvalidInput(_too_old(card, sizes), code="card_too_old")
    plan = _best(card, sizes, wishes)
    if plan is None:
        raise _refusal(card, sizes, wishes)
    return plan


def offload_budget(card: Card, sizes: ModelSizes, precision: str, slots: int | None) -> int:
    """GPU memory that weights may take where layers stream from the host: all that lines and codec leave over."""
    layout = Layout(precision, "model", slots or OFFLOAD_SLOTS, plain=True)
    parts = memory_parts(sizes, layout)
    return card.free_bytes - (sum(parts.values()) - parts["weights"])


def _best(card: Card, sizes: ModelSizes, wishes: Wishes) -> Plan | None:
    for layout, limit_ms in _tries(card, wishes):
        plan = _fitted(card, sizes, wishes, layout, limit_ms)
        if plan is not None:
            return plan
    return None


def _tries(card: Card, wishes: Wishes) -> Iterator[tuple[Layout, float]]:
    """Layouts of one line with the time a frame may take, the most wanted first.

    4 bits come only after everything else failed, and a tight frame before them: the quickest layout then. A card that
    is too old for the compiled kernels has float32 and the plain engine.
    """
    old = card.capability < OLDEST
    plain = wishes.plain or old
    every = ["float32"] if old else ["bfloat16", "int8", "int4"]
    precisions = every if wishes.precision == AUTO else [wishes.precision]
    caches = ["model", "int8"] if wishes.kv_cache == AUTO else [wishes.kv_cache]
    if plain:
        precisions = [one for one in precisions if PRECISIONS[one].plain]
        caches = [one for one in caches if one == "model"]
    layouts = [Layout(one, cache, 1, plain) for one in precisions for cache in caches]
    for coarse in (False, True):
        alike = [one for one in layouts if (one.precision == "int4") == coarse]
        if not wishes.live:
            yield from ((one, ANY_TIME) for one in alike)
            continue
        yield from ((one, TARGET_MS) for one in alike)
        yield from ((one, FRAME_MS) for one in reversed(alike))


def _fitted(card: Card, sizes: ModelSizes, wishes: Wishes, layout: Layout, limit_ms: float) -> Plan | None:
    """The layout with as many lines as are wished for, or as many as fit; None where that is not one."""
    tight = limit_ms == FRAME_MS
    most = 1 if tight or not wishes.live else MOST_UNASKED_SLOTS
    counts = [wishes.slots] if wishes.slots else range(most, 0, -1)
    for slots in counts:
        one = replace(layout, slots=slots)
        aside = copy_bytes(sizes, one) if slots > FEW_SLOTS and not wishes.slots else 0
        if _room(card, sizes, one) >= aside and frame_ms(card, sizes, one) <= limit_ms:
            return _plan_of(card, sizes, one, tight)
    return None


def _room(card: Card, sizes: ModelSizes, layout: Layout) -> int:
    """What stays free; less than nothing where the layout does not fit."""
    return card.free_bytes - sum(memory_parts(sizes, layout).values())


def _plan_of(card: Card, sizes: ModelSizes, layout: Layout, tight: bool = False) -> Plan:
    parts = memory_parts(sizes, layout)
    left = card.free_bytes - sum(parts.values()) - copy_bytes(sizes, layout)
    parts["known prompts"] = most_prompt_bytes(left, parts["known prompts"])
    remarks = (TIGHT if tight else "", COARSE if layout.precision == "int4" else "")
    return Plan(
        card=card,
        sizes=sizes,
        layout=layout,
        frame_ms=frame_ms(card, sizes, layout),
        first_ms=frame_ms(card, sizes, replace(layout, slots=1), positions=0),
        parts=parts,
        prompt_bytes=parts["known prompts"],
        remark=" ".join(one for one in remarks if one),
    )


def _dotted(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"


def _too_old(card: Card, sizes: ModelSizes) -> str:
    return (
        f"{card.name} has compute capability {_dotted(card.capability)}; bfloat16 and our kernels need "
        f"{_dotted(OLDEST)} (Ampere) or newer, so {sizes.name} cannot talk on it. What works here: "
        f"--checkpoint demo, or offline `render --device cpu`."
    )


def _refusal(card: Card, sizes: ModelSizes, wishes: Wishes) -> InvalidInput:
    """Why the wishes cannot be met, by the smallest layout that would still meet them, and what can."""
    layouts = [replace(one, slots=wishes.slots or 1) for one, _ in _tries(card, wishes)]
    if not layouts and card.capability < OLDEST:
        return InvalidInput(
            f"{card.name} has compute capability {_dotted(card.capability)}; an 8-bit past needs {_dotted(OLDEST)}: "
            f"leave --kv-cache out.",
            code="does_not_fit",
        )
    if not layouts:
        return InvalidInput(
            "Without the compiled kernels there are neither 8-bit nor 4-bit weights, nor an 8-bit past: "
            "leave --plain-engine out, or --precision and --kv-cache.",
            code="does_not_fit",
        )
    fitting = [one for one in layouts if _room(card, sizes, one) >= 0]
    if fitting:
        quickest = min(fitting, key=lambda one: frame_ms(card, sizes, one))
        code, why = "too_slow", _too_slow(card, sizes, quickest)
    else:
        least = max(layouts, key=lambda one: _room(card, sizes, one))
        code, why = "does_not_fit", _too_large(card, sizes, least)
    return InvalidInput(f"{why} {_what_works(card, sizes, wishes)}", code=code)


def _too_slow(card: Card, sizes: ModelSizes, layout: Layout) -> str:
    return (
        f"{sizes.name} as {layout_words(layout)} would take about {frame_ms(card, sizes, layout):.0f} ms for a frame "
        f"of {FRAME_MS} ms on {card.name} ({card.bandwidth / 1e9:.0f} GB/s): no live talk."
    )


def _too_large(card: Card, sizes: ModelSizes, layout: Layout) -> str:
    parts = memory_parts(sizes, layout)
    named = ", ".join(f"{name} {size / GIB:.1f}" for name, size in parts.items())
    return (
        f"{sizes.name} as {layout_words(layout)} needs {sum(parts.values()) / GIB:.1f} GiB of GPU memory ({named}); "
        f"{card.name} has {card.free_bytes / GIB:.1f} GiB free."
    )


def _what_works(card: Card, sizes: ModelSizes, wishes: Wishes) -> str:
    """The nearest things that work: fewer lines, or another precision or past; else all free; else not live."""
    free = replace(wishes, precision=AUTO, kv_cache=AUTO)
    fewer = [replace(wishes, slots=slots) for slots in range((wishes.slots or 1) - 1, 0, -1)]
    nearest = [
        _first(card, sizes, fewer),
        _first(card, sizes, [replace(wishes, kv_cache=AUTO), free]),
    ]
    found = [plan for plan in nearest if plan is not None]
    last = [replace(free, slots=None), replace(free, slots=None, plain=wishes.broken)]
    plans = found or [plan for plan in [_first(card, sizes, last)] if plan is not None]
    if plans:
        ways = [f"{_flags(plan.layout, wishes)} (about {plan.frame_ms:.0f} ms a frame)" for plan in plans]
        return f"What works here: {', or '.join(ways)}."
    offline = _best(card, sizes, Wishes(live=False, plain=wishes.broken)) if wishes.live else None
    if offline is not None:
        return f"What works here: offline `render --precision {offline.layout.precision}`, not in real time."
    return "What works here: --cpu-offload, with layers in host memory and not in real time; or a larger GPU."


def _first(card: Card, sizes: ModelSizes, wished: list[Wishes]) -> Plan | None:
    """The plan for the first wishes that can be met."""
    return next((plan for plan in (_best(card, sizes, one) for one in wished) if plan is not None), None)


def _flags(layout: Layout, wishes: Wishes) -> str:
    """How to ask for a layout, said only where it is not what was wished for."""
    flags = []
    if wishes.plain and not layout.plain:
        flags.append("no --plain-engine")
    if wishes.slots != layout.slots and (wishes.slots or layout.slots > 1):
        flags.append(f"--slots {layout.slots}")
    if wishes.precision not in (AUTO, layout.precision):
        flags.append(f"--precision {layout.precision}")
    if wishes.kv_cache not in (AUTO, layout.kv_cache):
        flags.append(f"--kv-cache {layout.kv_cache}")
    return " ".join(flags)
