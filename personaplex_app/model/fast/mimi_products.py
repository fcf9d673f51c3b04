"""Launches of products: picks the kernel and its block sizes by shape, and hands over addresses.

In: a Product's weights, columns. Out: columns, written where they are wanted.
Must not know: the order of the codec's parts.
"""

from __future__ import annotations

import torch
from torch import Tensor

from personaplex_app.model.fast import mimi_plan as plan
from personaplex_app.model.fast.codec_kernels_edges import to_samples
from personaplex_app.model.fast.codec_kernels_products import few_positions, many_positions
from personaplex_app.model.fast.mimi_weights import Product

_STAGES = 3


class Workshop:
    """Scratch memory in which programs that share a tile leave their parts; one for all launches in a row."""

    def __init__(self, device: torch.device) -> None:
        self.partial = torch.empty(plan.MOST_PARTS * plan.LARGEST_PART, device=device)
        self.arrived = torch.zeros(plan.MOST_PARTS, dtype=torch.int32, device=device)

    def multiply(
        self,
        product: Product,
        x: Tensor,
        *,
        out: Tensor | None = None,
        active: Tensor | None = None,
        residual: Tensor | None = None,
        offsets: Tensor | None = None,
    ) -> None:
        """One launch.

        Args:
            x: [b, past + time, width], rows apart as they like.
            out: [b, time / stride * spread, outputs], its columns in one piece. active: likewise, takes ELU of it.
            residual: as `out`, its rows in one piece too; added.
            offsets: int64 [b]; rows at 0 find their first column in place of the past.
        """
        b, columns, width = x.shape
        steps = (columns - product.past) // product.stride
        outputs, inputs = product.weight.shape
        straight = product.dilation == 1 and offsets is None
        tile = plan.tile_for(b * steps, outputs, inputs, whole=product.norm, scattered=not straight)
        pointers = (
            x,
            product.weight if plan.is_few(tile) else product.across,
            product.bias,
            residual,
            out,
            active,
            offsets,
        )
        strides = (
            x.stride(0),
            product.stride * width,
            0 if out is None else out.stride(0),
            0 if active is None else active.stride(0),
        )
        shape = (outputs, inputs, width, product.dilation, product.past, *strides)
        flags = {
            "GELU": product.gelu,
            "NORM": product.norm,
            "STRAIGHT": straight,
            "EVEN_K": inputs % tile.inputs == 0,
            "EVEN_N": outputs % tile.outputs == 0,
            "BLOCK_M": tile.positions,
            "BLOCK_N": tile.outputs,
            "BLOCK_K": tile.inputs,
            "num_warps": tile.warps,
        }
        across = -(-outputs // tile.outputs)
        if plan.is_few(tile):
            few_positions[(across,)](*pointers, b * steps, *shape, STEPS=steps, **flags)
        else:
            grid = (across, -(-b * steps // tile.positions), tile.splits)
            room = (self.partial, self.arrived) if tile.splits > 1 else (None, None)
            many_positions[grid](
                *pointers, *room, b * steps, steps, *shape, SPLITS=tile.splits, num_stages=_STAGES, **flags
            )


def make_sound(product: Product, x: Tensor, out: Tensor) -> None:
    """A product with one output, one launch; x: [b, past + time, width], out: [b, time] in one piece."""
    b, columns, width = x.shape
    steps, inputs = columns - product.past, product.weight.shape[1]
    to_samples[(-(-steps // plan.SAMPLES_A_PROGRAM), b)](
        x,
        product.weight,
        product.bias,
        out,
        steps,
        inputs,
        x.stride(0),
        width,
        BLOCK_M=plan.SAMPLES_A_PROGRAM,
        BLOCK_K=plan.power_of_two(inputs),
    )
