"""moshi's codec and the fast step side by side, frame by frame; and how long a recorded frame takes.

Codes may differ only where float64 finds both entries as near as float32 can tell: there either is right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from support.ties import count_ties, near_by_rest
from torch import Tensor

from personaplex_app.model.codec import Codec, random_codec
from personaplex_app.model.config import CheckpointConfig
from personaplex_app.model.fast.mimi import MimiStep

REPLAYS = 200


@torch.inference_mode()
def lively_codec(config: CheckpointConfig, device: torch.device, slots: int) -> Codec:
    """A random codec that uses its codebooks: latents as wide as the entries, and no biases that hide the sound."""
    codec = random_codec(config, device, slots)
    for name, parameter in codec.mimi.encoder.named_parameters():
        if name.endswith("bias"):
            parameter.zero_()
    generator = torch.Generator().manual_seed(5)
    quantizer = codec.mimi.quantizer
    widths: list[Tensor] = []
    halves = quantizer.rvq_first, quantizer.rvq_rest
    notes = [half.input_proj.register_forward_hook(lambda _, __, out: widths.append(out.std())) for half in halves]
    codec.encode(0.2 * torch.randn(slots, 1920, generator=generator).to(device))
    for half, note, width in zip(halves, notes, widths, strict=True):
        note.remove()
        half.input_proj.weight.div_(width)
    for slot in range(slots):
        codec.reset(slot)
    return codec


@dataclass
class Tally:
    """What a comparison has found so far.

    Attributes:
        codes: compared. ties: differ, and both are as near. wrong: differ otherwise.
        sound: largest difference of a sample.
    """

    codes: int = 0
    ties: int = 0
    wrong: int = 0
    sound: float = 0.0


class Twins:
    """Both implementations over the same weights, `slots` rows each."""

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self.step = MimiStep(codec.mimi, codec.slots)
        self.tally = Tally()
        self._latent = torch.empty(0)
        quantizer = codec.mimi.quantizer
        encode = quantizer.encode

        def noted(x: Tensor) -> Tensor:
            self._latent = x.clone()
            return encode(x)

        quantizer.encode = noted

    def hear(self, frames: Tensor, live: list[bool]) -> Tensor:
        """One frame through both, decoded from moshi's codes; compares the live rows. The step's codes, [b, 8]."""
        mask = torch.tensor(live, device=frames.device)
        self.codec.set_live(live)
        wanted, codes = self.codec.encode(frames), self.step.encode(frames, mask).clone()
        sound, wanted_sound = self.step.decode(wanted, mask), self.codec.decode(wanted)
        for row in (row for row, is_live in enumerate(live) if is_live):
            self._compare(row, wanted[row], codes[row])
            self.tally.sound = max(self.tally.sound, (sound[row] - wanted_sound[row]).abs().max().item())
        return codes

    def reset(self, slot: int) -> None:
        """A row of both as new."""
        self.codec.reset(slot)
        for tensor in self.step.rows(slot):
            tensor.zero_()

    def _compare(self, row: int, wanted: Tensor, codes: Tensor) -> None:
        ties, wrong = count_ties(self.codec.mimi.quantizer, self._latent[row, :, 0], wanted, codes, near_by_rest)
        self.tally.codes += codes.numel()
        self.tally.ties += ties
        self.tally.wrong += wrong


def time_frame(step: MimiStep, b: int) -> dict[str, float]:
    """Milliseconds that the GPU takes for one frame of b rows, each direction recorded as one CUDA graph.

    The rows' state moves on; use a step that serves nobody. Rings are filled first: a frame then reads all of them.
    """
    frames = torch.randn(b, 1920, device="cuda") * 0.1
    live = torch.ones(b, dtype=torch.bool, device="cuda")
    codes = step.encode(frames, live).clone()
    for slot in range(b):
        for tensor in step.rows(slot):
            if tensor.dtype == torch.int64:
                tensor.fill_(10_000)
    encode, decode = _record(lambda: step.encode(frames, live)), _record(lambda: step.decode(codes, live))
    return {"encode": _replay_ms(encode), "decode": _replay_ms(decode)}


def _record(work: Callable[[], object]) -> torch.cuda.CUDAGraph:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


def _replay_ms(graph: torch.cuda.CUDAGraph) -> float:
    """Median of single replays, with a large write in between: in service other work takes the cache meanwhile."""
    other_work = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    taken = []
    for _ in range(REPLAYS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        other_work.zero_()
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        taken.append(begin.elapsed_time(end))
    return sorted(taken)[REPLAYS // 2]
