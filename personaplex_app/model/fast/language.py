"""The language model for a GPU: from outside as `model/language.py`, its past in blocks, its step in few launches.

In: prompt plans, the users' codes. Out: text tokens and the agents' codes.
Must not know: sound, text as letters, sessions.

Rows beyond the highest live one are not computed: a step costs what its bucket of rows costs.
Shapes: B slots, K = 17 streams.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from personaplex_app.controls import SamplingSettings
from personaplex_app.model import sampling as draws
from personaplex_app.model.config import CODEBOOKS
from personaplex_app.model.fast.blocks import BLOCK_POSITIONS, BlockPool, PagedPast
from personaplex_app.model.fast.draw_kernels import MOST_TILED_CANDIDATES
from personaplex_app.model.fast.prompt_states import PromptState, PromptStates
from personaplex_app.model.fast.step import FastShape, FastStep
from personaplex_app.model.graphs import GraphRecorder
from personaplex_app.model.language import prompt_embeddings
from personaplex_app.model.loading import Weights
from personaplex_app.model.prompts import PromptPlan
from personaplex_app.model.state import Rows, RowState
from personaplex_app.model.step import Advance

BUCKETS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
PIECE_POSITIONS = 128
PIECE_STEP = 32


def bucket_for(rows: int) -> int:
    """The smallest bucket that holds so many rows."""
    return next(size for size in BUCKETS if rows <= size)


def fast_shape(rows: int, settings: list[SamplingSettings], vocabulary: int) -> FastShape:
    """The shape that suffices for rows with these settings."""
    text = draws.widest_candidates([(s.text_temperature, s.text_top_k) for s in settings], vocabulary)
    return FastShape(
        rows=rows,
        text_candidates=MOST_TILED_CANDIDATES if text <= MOST_TILED_CANDIDATES else vocabulary,
        greedy_audio=all(s.audio_temperature == 0 for s in settings),
        penalized=any(s.repetition_penalty != 1.0 for s in settings),
    )


def every_shape(rows: int, vocabulary: int) -> list[FastShape]:
    """All shapes that `fast_shape` can give for so many rows."""
    return [
        FastShape(rows, candidates, greedy_audio, penalized)
        for candidates in (MOST_TILED_CANDIDATES, vocabulary)
        for greedy_audio in (False, True)
        for penalized in (False, True)
    ]


class FastLanguageModel:
    """Weights and state joined; every method runs in inference mode, on whichever thread calls.

    Args:
        cache: element type of the past, `torch.int8` or the weights' own. recorded: replay steps as CUDA graphs.
    """

    def __init__(self, weights: Weights, slots: int, cache: torch.dtype | None = None, recorded: bool = True) -> None:
        self.weights = weights
        self.config = weights.config
        self.slots = slots
        rows = bucket_for(slots)
        device = weights.device
        self.pool = BlockPool(self.config, device, cache or weights.dtype)
        self.past = PagedPast(self.pool, rows)
        self.state = Rows(self.config, rows, device)
        self.prompts = PromptStates()
        self.user_codes = torch.zeros((rows, CODEBOOKS), dtype=torch.int64, device=device)
        self.live = torch.zeros(rows, dtype=torch.bool, device=device)
        self.step = FastStep(weights, self.state, self.past, self.user_codes, self.live)
        self._recorder = GraphRecorder(self.step.compute, self._at_rest) if recorded else None

    def _at_rest(self) -> Callable[[], None]:
        """No row live: a step then leaves every row's future as it is."""
        live = self.live.clone()
        self.live.zero_()

        def undo() -> None:
            self.live.copy_(live)

        return undo

    def prime(self, slot: int, plan: PromptPlan, settings: SamplingSettings, seed: int) -> None:
        """Prefills the n prompt positions of a row and draws what stands at position n."""
        for _ in self.prime_pieces(slot, plan, settings, seed):
            pass

    def prime_pieces(
        self,
        slot: int,
        plan: PromptPlan,
        settings: SamplingSettings,
        seed: int,
        known_as: Hashable | None = None,
    ) -> Iterator[None]:
        """The same in pieces of some positions; a prompt that is known is not read again.

        Args:
            known_as: what names voice and text; None for a prompt that nobody else will have.
        """
        with torch.inference_mode():
            self.reset(slot)
            self.state.begin(slot, settings, seed)
        known = None if known_as is None else self.prompts.find(known_as)
        if known is not None:
            with torch.inference_mode():
                self.past.take_copies(slot, known.blocks)
        else:
            kv, hidden, logits = yield from self._read(plan)
            with torch.inference_mode():
                self.past.write(slot, kv)
                known = PromptState(self.past.copies(slot) if known_as is not None else [], hidden, logits)
            if known_as is not None:
                self.prompts.keep(known_as, known)
        with torch.inference_mode():
            shape = fast_shape(1, [settings], self.config.text_card)
            self.state.stand_after(slot, plan, *self.step.draw_first(slot, known.hidden, known.logits, shape))

    def prepare_pieces(self, plan: PromptPlan, known_as: Hashable) -> Iterator[None]:
        """Reads a prompt into no row and keeps it where there is room; a piece is over when the device has done it."""
        reading = self._read(plan)
        while True:
            try:
                next(reading)
            except StopIteration as end:
                kv, hidden, logits = end.value
                break
            self._until_done()
            yield
        with torch.inference_mode():
            self.prompts.keep_unused(known_as, PromptState(self.past.packed(kv), hidden, logits))
        self._until_done()

    def _until_done(self) -> None:
        """Work that is only launched would seem over, and hold up the next frame of those who talk."""
        if self.weights.device.type == "cuda":
            done = torch.cuda.Event(blocking=True)
            done.record()
            done.synchronize()

    def has_room(self, plan: PromptPlan) -> bool:
        """Whether one more prompt's state could be kept and nothing that is kept had to go for it."""
        blocks = -(-plan.frames // BLOCK_POSITIONS)
        ends = (self.config.dim + self.config.text_card) * self.weights.dtype.itemsize
        return self.prompts.has_room(blocks * self.pool.block_bytes + ends)

    def _read(self, plan: PromptPlan) -> Generator[None, None, tuple[Tensor, Tensor, Tensor]]:
        """Reads a prompt: its past [L, 2, H, n, E], hidden [1, D] and logits [1, V] of its last position."""
        c, device = self.config, self.weights.device
        with torch.inference_mode():
            embeddings = prompt_embeddings(self.weights.temporal, plan)
            room = -(-plan.frames // PIECE_STEP) * PIECE_STEP  # pieces come in few sizes, whose kernels are warm
            embeddings = F.pad(embeddings, (0, 0, 0, room - plan.frames))
            kv = torch.empty((c.layers, 2, c.heads, room, c.head_dim), dtype=self.weights.dtype, device=device)
        for first in range(0, room, PIECE_POSITIONS):
            if first:
                yield
            with torch.inference_mode():
                x = self.step.prefill(embeddings[first : first + PIECE_POSITIONS], kv, first)
        last = (plan.frames - 1) % PIECE_POSITIONS
        with torch.inference_mode():
            return kv[:, :, :, : plan.frames], *self.step.outputs(x[last : last + 1])

    def shape_of(self, live: list[bool]) -> FastShape:
        """The shape of a step for these live rows; their pasts get room for it."""
        positions = self.state.position_host
        highest = 0
        settings = []
        for slot, on in enumerate(live):
            if on:
                highest = slot + 1
                settings.append(self.state.settings[slot])
                self.past.make_room(slot, positions[slot] % self.config.context)
        return fast_shape(bucket_for(max(highest, 1)), settings, self.config.text_card)

    def note_step(self, live: list[bool]) -> None:
        """The host follows what the device did."""
        for slot, on in enumerate(live):
            self.state.position_host[slot] += on

    def go_ahead(self, live: list[bool], frames: int) -> None:
        """Room for so many positions more; the host takes them as gone. For whoever replays a step by itself."""
        for slot, on in enumerate(live):
            for ahead in range(frames if on else 0):
                self.past.make_room(slot, (self.state.position_host[slot] + ahead) % self.config.context)
            self.state.position_host[slot] += frames if on else 0

    @torch.inference_mode()
    def advance(self, user_codes: Tensor, live: list[bool]) -> Advance:
        """One position for every live row.

        Args:
            user_codes: int64 [B, 8], the frame each user just said. live: which rows take part; the others rest.
        Returns:
            tensors that the next call overwrites, for as many rows as were computed.
        """
        shape = self.shape_of(live)
        self.user_codes[: len(user_codes)].copy_(user_codes)
        self.live[: len(live)].copy_(torch.tensor(live))
        result = self._recorder.run(shape) if self._recorder else self.step.compute(shape)
        self.note_step(live)
        return result

    def set_sampling(self, slot: int, settings: SamplingSettings) -> None:
        """New settings for a row, from its next step on."""
        self.state.set_sampling(slot, settings)

    @torch.inference_mode()
    def save(self, slot: int) -> RowState:
        """A copy of a row, to restore here or in another row later."""
        return self.state.save_with(slot, self.past.read(slot, self.state.used(slot), self.weights.dtype))

    @torch.inference_mode()
    def restore(self, slot: int, row: RowState) -> None:
        """Puts a copy back; the row goes on as the original did."""
        self.reset(slot)
        self.past.write(slot, row.kv)
        self.state.take(slot, row)

    @torch.inference_mode()
    def reset(self, slot: int) -> None:
        """A row as new."""
        self.state.reset(slot)
        self.past.clear(slot)
