"""One frame of the first b rows from sound to sound as one CUDA graph: one copy in, one replay, one copy out.

In: heard frames on the host, which rows are live. Out: spoken frames, tokens and health on the host.
Must not know: prompts, sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import torch

from personaplex_app.audio import FRAME_SAMPLES, Pcm
from personaplex_app.model.config import CODEBOOKS
from personaplex_app.model.fast.codec import FastCodec
from personaplex_app.model.fast.language import FastLanguageModel
from personaplex_app.model.fast.step import FastShape
from personaplex_app.model.graphs import GraphRecorder

LIVE = FRAME_SAMPLES  # the column behind the sound that says whether a row is live
REPLAYS = 20
NUMBERS = 2 + 2 * CODEBOOKS  # text, the agent's codes, the user's codes, health


class FrameRunner:
    """The buffers that a recorded frame reads and writes, and its recordings."""

    def __init__(self, language: FastLanguageModel, codec: FastCodec) -> None:
        self._language = language
        self._codec = codec
        rows, device = language.state.slots, codec.device
        pinned = device.type == "cuda"
        self._host_in = torch.zeros((rows, FRAME_SAMPLES + 1), pin_memory=pinned)
        self._in = torch.zeros((rows, FRAME_SAMPLES + 1), device=device)
        self._out = torch.zeros((rows, FRAME_SAMPLES + NUMBERS), device=device)
        self._host_out = torch.zeros((rows, FRAME_SAMPLES + NUMBERS), pin_memory=pinned)
        self._heard = self._host_in.numpy()
        self._recorder = GraphRecorder(self.compute, self._at_rest) if pinned else None
        self._done = torch.cuda.Event(blocking=True) if pinned else None

    def _at_rest(self) -> Callable[[], None]:
        kept = self._in[:, LIVE].clone()
        self._in[:, LIVE] = 0.0

        def undo() -> None:
            self._in[:, LIVE] = kept

        return undo

    def compute(self, shape: FastShape) -> None:
        """The frame as arithmetic on fixed tensors."""
        b, language = shape.rows, self._language
        live = language.live[:b]
        live.copy_(self._in[:b, LIVE] > 0.5)
        user_codes = self._codec.step.encode(self._in[:b, :FRAME_SAMPLES].contiguous(), live)
        language.user_codes[:b].copy_(user_codes)
        advance = language.step.compute(shape)
        spoken = self._codec.step.decode(advance.codes, live)
        healthy = advance.healthy & torch.isfinite(spoken.sum(-1))
        numbers = torch.cat([advance.text[:, None], advance.codes, language.user_codes[:b], healthy[:, None]], 1)
        self._out[:b, :FRAME_SAMPLES] = spoken
        self._out[:b, FRAME_SAMPLES:] = numbers.int().view(torch.float32)

    @torch.inference_mode()
    def record(self, shape: FastShape) -> None:
        """Compiles and records a shape beforehand."""
        if self._recorder is not None:
            self._recorder.record(shape)

    @property
    def remark(self) -> str:
        """What whoever runs it should know of the recordings."""
        return self._recorder.remark if self._recorder is not None else ""

    @torch.inference_mode()
    def parts_ms(self, rows: int) -> dict[str, list[float]]:
        """Milliseconds of the codec in, the language step and the codec out, each recorded and replayed by itself.

        The rows move on by as many frames as there are replays.
        """
        language, step = self._language, self._codec.step
        shape = language.shape_of([True] * rows)
        language.go_ahead([True] * rows, 1 + REPLAYS)
        live, codes = language.live[: shape.rows], language.user_codes[: shape.rows].clone()
        live.zero_()
        live[:rows] = True
        frames = self._in[: shape.rows, :FRAME_SAMPLES].contiguous()
        parts = {
            "codec_in": lambda: step.encode(frames, live),
            "language": lambda: language.step.compute(shape),
            "codec_out": lambda: step.decode(codes, live),
        }
        return {name: _replayed_ms(part) for name, part in parts.items()}

    @torch.inference_mode()
    def run(self, heard: Mapping[int, Pcm], live: list[bool]) -> tuple[Pcm, npt.NDArray[np.int32]]:
        """One frame for the rows that are live: sound [b, 1920] and numbers int32 [b, 18], overwritten by the next."""
        shape = self._language.shape_of(live)
        b = shape.rows
        self._heard[:b, LIVE] = 0.0
        for slot, pcm in heard.items():
            self._heard[slot, :FRAME_SAMPLES] = pcm
            self._heard[slot, LIVE] = 1.0
        self._in[:b].copy_(self._host_in[:b], non_blocking=True)
        if self._recorder is not None:
            self._recorder.run(shape)
        else:
            self.compute(shape)
        self._host_out[:b].copy_(self._out[:b], non_blocking=True)
        self._language.note_step(live)
        if self._done is not None:
            self._done.record()
            self._done.synchronize()
        out = self._host_out[:b].numpy()
        return out[:, :FRAME_SAMPLES], out[:, FRAME_SAMPLES:].view(np.int32)


def _replayed_ms(work: Callable[[], object]) -> list[float]:
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    taken = []
    for _ in range(REPLAYS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        taken.append(begin.elapsed_time(end))
    return taken
