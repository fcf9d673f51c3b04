"""Talks for the trainer: made by processes beside it, kept on the device, each seen a few times and then replaced.

In: the shelves, how many positions a talk is to have now. Out: batches.
Must not know: losses, networks.
"""

from __future__ import annotations

import multiprocessing
import queue
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch

from training.encode.shelves import read_agents, read_constants, read_tracks
from training.language.assembler import Assembler
from training.language.losses import Batch

MADE_TOGETHER = 100_000  # positions that a process hands over at once
UNSEEN_EVERY = 50
TAKEN_TOGETHER = 2  # hand-overs at most: taking them in holds up the training
SEEN_BEFORE_FIRST = 2  # batches that lie ready before training begins

Arrays = tuple[np.ndarray[Any, Any], ...]


def assemblers(codes: Path, tokenizer: Path, seed: int) -> tuple[Assembler, Assembler]:
    """Reads the shelves: over all tracks but every fiftieth, and over those, which training never sees."""
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer))
    agents, constants, (user_codes, tracks) = read_agents(codes), read_constants(codes), read_tracks(codes)

    def over(apart: bool) -> Assembler:
        numbers = [number for number in range(len(tracks)) if (number % UNSEEN_EVERY == 0) is apart]
        some_codes, some_tracks = [user_codes[number] for number in numbers], [tracks[number] for number in numbers]
        return Assembler(agents, constants, some_codes, some_tracks, pieces.encode, seed)

    return over(False), over(True)


def draw_many(maker: Assembler, positions: int, count: int) -> Arrays:
    """Tokens [n, 17, T], prompt [n], skipped [n], speaking [n, T], heard [n, T]."""
    talks = [maker.draw(positions) for _ in range(count)]
    numbers = np.array([[talk.prompt, talk.skipped] for talk in talks], np.int64)
    tokens, speaking = np.stack([talk.tokens for talk in talks]), np.stack([talk.speaking for talk in talks])
    return tokens, numbers[:, 0], numbers[:, 1], speaking, np.stack([talk.heard for talk in talks])


def _work(maker: Assembler, seed: int, wanted: Any, made: Any) -> None:
    maker.reseed(seed)
    while True:
        positions = int(wanted.value)
        made.put((positions, draw_many(maker, positions, max(1, MADE_TOGETHER // positions))))


class TalkPool:
    """The talks of one length at a time, filled by so many processes, or in between by the trainer itself (0)."""

    def __init__(self, codes: Path, tokenizer: Path, workers: int, room: int, seed: int) -> None:
        self._device, self._room, self._rng = torch.device("cpu"), room, Random(seed)
        self._positions, self._next, self._held = 0, 0, 0
        self._store: list[torch.Tensor] = []
        self._own, self._apart = assemblers(codes, tokenizer, seed)  # the processes share their shelves with these
        context = multiprocessing.get_context("fork")
        self._wanted, self._made = context.Value("l", 0), context.Queue(2 * workers + 2)
        given = [(self._own, seed + 1 + number, self._wanted, self._made) for number in range(workers)]
        self._workers = [context.Process(target=_work, args=each, daemon=True) for each in given]
        self.received = 0

    def prefer(self, positions: int, batch: int) -> None:
        """From now on talks of this length; returns when some are there."""
        if positions == self._positions:
            return
        self._positions, self._next, self._held = positions, 0, 0
        self._wanted.value = positions
        self._store = []
        for worker in self._workers:
            if worker.pid is None:
                worker.start()
        while self._held < SEEN_BEFORE_FIRST * batch:
            self.refill(wait=True)

    def move_to(self, device: torch.device) -> None:
        """Where batches come from now on; the processes must have been started before a GPU is touched."""
        self._device = device
        self._store = [kept.to(device) for kept in self._store]

    def refill(self, *, wait: bool = False) -> None:
        """Takes in some of what was made meanwhile, over the oldest talks."""
        if not self._workers:
            self._take(draw_many(self._own, self._positions, 4))
            return
        for _ in range(TAKEN_TOGETHER):
            try:
                positions, arrays = self._made.get(timeout=60) if wait else self._made.get_nowait()
            except queue.Empty:
                if not any(worker.is_alive() for worker in self._workers):
                    raise RuntimeError("the processes that assemble talks have ended") from None
                return
            if positions == self._positions:
                self._take(arrays)
            if wait:
                return

    def _take(self, arrays: Arrays) -> None:
        capacity = max(1, self._room // self._positions)
        fresh = [torch.from_numpy(array).to(self._device) for array in arrays]
        if not self._store:
            self._store = [torch.empty((capacity, *one.shape[1:]), dtype=one.dtype, device=one.device) for one in fresh]
        count = min(len(fresh[0]), capacity)
        if self._next + count > capacity:
            self._next = 0
        for kept, one in zip(self._store, fresh, strict=True):
            kept[self._next : self._next + count] = one[:count]
        self._next += count
        self._held = max(self._held, self._next)
        self.received += count

    def batch(self, size: int) -> Batch:
        """Some of the talks at random."""
        chosen = torch.tensor([self._rng.randrange(self._held) for _ in range(size)], device=self._device)
        return Batch(*(kept[chosen] for kept in self._store))

    def unseen(self, size: int) -> Batch:
        """New talks of the present length over tracks that are in no other batch."""
        return Batch(*(torch.from_numpy(one).to(self._device) for one in draw_many(self._apart, self._positions, size)))

    def close(self) -> None:
        """Ends the processes."""
        for worker in self._workers:
            if worker.pid is not None:
                worker.kill()
                worker.join()
        self._made.close()
        self._made.cancel_join_thread()
