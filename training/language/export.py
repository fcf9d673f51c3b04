"""The trained network as the Hub's file names it, and back.

In: a `Network`. Out: tensors by the older Moshi names, eight depth steps stacked; or the network filled with them.
Must not know: precision, files.
"""

from __future__ import annotations

import torch
from torch import Tensor

from personaplex_app.model.config import CODEBOOKS
from training.language.network import AUDIO_STREAMS, Network


def file_tensors(network: Network) -> dict[str, Tensor]:
    """Every tensor of `model.safetensors`, in the network's precision."""
    made: dict[str, Tensor] = {
        "text_emb.weight": network.text_emb,
        "text_linear.weight": network.text_linear,
        "out_norm.alpha": network.out_norm[None, None],
        "depformer_text_emb.weight": network.depth_text_emb,
    }
    for stream in range(AUDIO_STREAMS):
        made[f"emb.{stream}.weight"] = network.audio_emb[stream]
    for layer in range(network.config.layers):
        made |= _temporal_layer(network, layer)
    for step in range(CODEBOOKS):
        made[f"depformer_in.{step}.weight"] = network.depth_in[step]
        made[f"linears.{step}.weight"] = network.depth_heads[step]
        if step < CODEBOOKS - 1:
            made[f"depformer_emb.{step}.weight"] = network.depth_emb[step]
    for layer in range(network.config.depth_layers):
        made |= _depth_layer(network, layer)
    return {name: tensor.detach().contiguous() for name, tensor in made.items()}


@torch.no_grad()
def take_over(network: Network, tensors: dict[str, Tensor]) -> None:
    """Fills the network with a packaged model of the same architecture, to be trained on.

    What tells the user's words (`heard_linear`) is in no package and stays as it was.

    Raises KeyError, RuntimeError: another architecture.
    """
    for name, place in file_tensors(network).items():
        place.copy_(tensors[name].view_as(place))


def _temporal_layer(network: Network, layer: int) -> dict[str, Tensor]:
    name = f"transformer.layers.{layer}"
    return {
        f"{name}.norm1.alpha": network.norm1[layer][None, None],
        f"{name}.norm2.alpha": network.norm2[layer][None, None],
        f"{name}.self_attn.in_proj_weight": network.in_proj[layer],
        f"{name}.self_attn.out_proj.weight": network.out_proj[layer],
        f"{name}.gating.linear_in.weight": network.gate_in[layer],
        f"{name}.gating.linear_out.weight": network.gate_out[layer],
    }


def _depth_layer(network: Network, layer: int) -> dict[str, Tensor]:
    name = f"depformer.layers.{layer}"
    made = {
        f"{name}.norm1.alpha": network.depth_norm1[layer][None, None],
        f"{name}.norm2.alpha": network.depth_norm2[layer][None, None],
        f"{name}.self_attn.in_proj_weight": network.depth_in_proj[layer].flatten(0, 1),
        f"{name}.self_attn.out_proj.weight": network.depth_out_proj[layer].flatten(0, 1),
    }
    for step in range(CODEBOOKS):
        made[f"{name}.gating.{step}.linear_in.weight"] = network.depth_gate_in[layer, step]
        made[f"{name}.gating.{step}.linear_out.weight"] = network.depth_gate_out[layer, step]
    return made
