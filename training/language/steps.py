"""One optimizer step of the language model: launched bit by bit, or on a GPU recorded once a phase and replayed.

In: a network, its optimizer, batches. Out: losses by name. Must not know: where talks come from, when to stop.

A step launches some 1,500 kernels of a few microseconds each; launched one by one the GPU waits half of the time.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from training.language.losses import Batch, losses, silent_batch
from training.language.network import Network, Pieces
from training.sizes import Phase

WEIGHT_DECAY = 0.05
MOST_NORM = 1.0
WARM_UP_STEPS = 3  # before recording, so that everything is compiled and laid out
Losses = dict[str, Tensor]


def make_optimizer(network: Network, peak: float, device: torch.device) -> torch.optim.Optimizer:
    """AdamW; norms do not decay. On a GPU the rate is a tensor, which a recorded step reads anew."""
    on_gpu = device.type == "cuda"
    rate = torch.tensor(peak, device=device) if on_gpu else peak
    matrices = [parameter for name, parameter in network.named_parameters() if "norm" not in name]
    norms = [parameter for name, parameter in network.named_parameters() if "norm" in name]
    groups = [{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": norms, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.97), fused=on_gpu, capturable=on_gpu)


class Steps:
    """Steps of one training; `take` does one."""

    def __init__(
        self, network: Network, optimizer: torch.optim.Optimizer, depth_positions: int, device: torch.device
    ) -> None:
        self._network, self._optimizer, self._depth_positions = network, optimizer, depth_positions
        self._device, self._recorded = device, device.type == "cuda"
        self._shape: tuple[int, ...] = ()
        self._replay: Callable[[Batch], Losses] = self._once

    def compile(self, phases: tuple[Phase, ...]) -> None:
        """Compiles for every phase's shape, which else would happen in the middle of the training."""
        if not self._recorded:
            return
        self._network.compile()
        for phase in phases:
            self._gradients(silent_batch(phase.batch, phase.positions, self._device))
        self._optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        torch.cuda.empty_cache()

    def take(self, batch: Batch, rate: float) -> Losses:
        """One step at this learning rate; what it returns is overwritten by the next."""
        for group in self._optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        if self._recorded and batch.tokens.shape != self._shape:
            self._replay = self._once  # lets go of the last recording's memory
            self._shape = tuple(batch.tokens.shape)
            try:
                self._replay = self._record(batch)
            except RuntimeError as error:
                self._recorded = False
                warnings.warn(f"steps are launched one by one: {error}", stacklevel=2)
        return self._replay(batch)

    @torch.no_grad()
    def measure(self, batch: Batch) -> dict[str, float]:
        """Losses of talks as they are, with the whole network."""
        network, compiled = self._network, self._network.pieces
        network.pieces = Pieces()
        network.eval()
        with torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=self._device.type == "cuda"):
            made = losses(batch, network, self._depth_positions)
        network.train()
        network.pieces = compiled
        return {name: float(value) for name, value in made.items()}

    def _gradients(self, batch: Batch) -> Losses:
        network = self._network
        with torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=self._device.type == "cuda"):
            made = losses(batch, network, self._depth_positions)
        (made["text"] + made["audio"] + made["heard"]).backward()
        return {name: value.detach() for name, value in made.items()}

    def _once(self, batch: Batch) -> Losses:
        self._optimizer.zero_grad(set_to_none=True)
        made = self._gradients(batch)
        nn.utils.clip_grad_norm_(self._network.parameters(), MOST_NORM)
        self._optimizer.step()
        return made

    def _record(self, batch: Batch) -> Callable[[Batch], Losses]:
        """Takes some steps beside the default stream, then records one; the recording reads `held`."""
        held = Batch(*(one.clone() for one in batch.tensors))
        beside = torch.cuda.Stream()
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):
            for _ in range(WARM_UP_STEPS):
                self._once(held)
        torch.cuda.current_stream().wait_stream(beside)
        self._optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            made = self._once(held)

        def replay(drawn: Batch) -> Losses:
            for place, one in zip(held.tensors, drawn.tensors, strict=True):
                place.copy_(one)
            graph.replay()
            return made

        return replay
