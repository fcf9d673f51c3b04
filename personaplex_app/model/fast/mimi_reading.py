"""Reads Mimi's weights from moshi's modules.

In: a loaded MimiModel. Out: MimiWeights; CannotRunFast where the codec is of a kind that the fast step does not know.
Must not know: kernels, slots, streaming state.

Norm weights, layer scales and chains of linear maps are multiplied in, so that the step has fewer things to do.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from moshi.models.compression import MimiModel
from torch import Tensor, nn

from personaplex_app.model.fast.mimi_weights import (
    Block,
    Decoder,
    Encoder,
    Layer,
    MimiWeights,
    Product,
    Transformer,
)


class CannotRunFast(RuntimeError):
    """The fast step cannot run here, or cannot run this codec: use moshi's own modules."""


def require(met: bool, what: str) -> None:
    """Raises CannotRunFast unless met."""
    if not met:
        raise CannotRunFast(f"The fast codec step runs only codecs with {what}.")


@torch.no_grad()
def read_weights(mimi: MimiModel) -> MimiWeights:
    """Reads all weights. Raises CannotRunFast."""
    parts: Any = mimi
    require(mimi.channels == 1, "one channel of sound")
    require(hasattr(parts, "downsample") and parts.downsample.learnt, "learnt resampling to the frame rate")
    require(parts.downsample.conv.pad_mode == "replicate", "the first column repeated in front of the resampling")
    quantizer = parts.quantizer
    halves = quantizer.rvq_first, quantizer.rvq_rest
    projections = torch.cat([half.input_proj.weight[:, :, 0] for half in halves])
    books = [layer._codebook.embedding for half in halves for layer in half.vq.layers[: half.n_q]]
    outputs = [half.output_proj.weight[:, :, 0] for half in halves for _ in range(half.n_q)]
    require(
        all(isinstance(layer.project_in, nn.Identity) for half in halves for layer in half.vq.layers), "plain codebooks"
    )
    spread = parts.upsample.convtr.convtr.convtr
    require(spread.groups == spread.in_channels and spread.bias is None, "channel-wise upsampling")
    return MimiWeights(
        encoder=Encoder(
            _blocks(parts.encoder.model),
            _transformer(parts.encoder_transformer),
            _before(projections, _convolution(parts.downsample.conv)),
        ),
        decoder=Decoder(
            torch.stack([_multiplied(book, output.T) for book, output in zip(books, outputs, strict=True)]),
            spread.weight[:, 0].T.contiguous(),
            _transformer(parts.decoder_transformer),
            _blocks(parts.decoder.model),
        ),
        books=torch.stack(books).contiguous(),
        semantic=int(quantizer.n_q_semantic),
        frame_samples=int(mimi.frame_size),
    )


def _multiplied(one: Tensor, other: Tensor) -> Tensor:
    return (one.double() @ other.double()).float().contiguous()


def _before(matrix: Tensor, product: Product) -> Product:
    """A linear map behind a product without bias, as one product."""
    return Product(_multiplied(matrix, product.weight), None, product.width, past=product.past, stride=product.stride)


def _blocks(model: nn.Sequential) -> tuple[Block, ...]:
    """All products in order. ELU stands before each but the first: that is what the step takes for granted."""
    blocks: list[Block] = []
    active = False
    for module in model:
        if isinstance(module, nn.ELU):
            active = module.alpha == 1.0
            continue
        residual = hasattr(module, "block")
        require(active is (bool(blocks) and not residual), "ELU before each convolution but the first")
        blocks.append(_residual(module) if residual else Block(_product(module)))
        active = False
    require(not active and not blocks[0].second and not blocks[-1].second, "plain convolutions at both ends")
    return tuple(blocks)


def _residual(module: Any) -> Block:
    require(isinstance(module.shortcut, nn.Identity) and len(module.block) == 4, "residual blocks of two convolutions")
    active, first, active_again, second = module.block
    for activation in (active, active_again):
        require(isinstance(activation, nn.ELU) and activation.alpha == 1.0, "ELU")
    return Block(_product(first), _product(second))


def _product(module: Any) -> Product:
    if hasattr(module, "convtr"):
        return _transposed(module)
    require(hasattr(module, "conv") and module.pad_mode == "constant", "zeros in front of the sound")
    return _convolution(module)


def _convolution(module: Any) -> Product:
    conv = module.conv.conv
    require(conv.groups == 1 and module.conv.norm_type == "none", "plain convolutions")
    past = (conv.kernel_size[0] - 1) * conv.dilation[0] + 1 - conv.stride[0]
    weight = conv.weight.float().permute(0, 2, 1).flatten(1).contiguous()
    return Product(weight, conv.bias, conv.in_channels, conv.dilation[0], past, conv.stride[0])


def _transposed(module: Any) -> Product:
    """A transposed convolution reads the columns whose outputs reach into the new ones, the oldest first."""
    conv = module.convtr.convtr
    require(conv.groups == 1 and module.convtr.norm_type == "none", "plain convolutions")
    stride, taps = conv.stride[0], -(-conv.kernel_size[0] // conv.stride[0])
    weight = nn.functional.pad(conv.weight.float(), (0, taps * stride - conv.kernel_size[0]))
    weight = weight.unflatten(2, (taps, stride)).flip(2).permute(3, 1, 2, 0)  # [stride, out, taps, in]
    bias = None if conv.bias is None else conv.bias.repeat(stride)
    return Product(weight.flatten(2).flatten(0, 1).contiguous(), bias, conv.in_channels, past=taps - 1, spread=stride)


def _transformer(module: Any) -> Transformer:
    inner = module.transformer
    require(inner.positional_embedding == "rope", "rotary positions")
    attention = inner.layers[0].self_attn
    require(attention.context is not None and attention.causal, "a causal transformer of limited context")
    width = attention.embed_dim // attention.num_heads
    places = torch.arange(width // 2, device=attention.in_projs[0].weight.device, dtype=torch.float32)
    return Transformer(
        None if module.input_proj is None else _linear(module.input_proj.weight),
        tuple(_layer(layer) for layer in inner.layers),
        None if isinstance(module.output_projs[0], nn.Identity) else _linear(module.output_projs[0].weight),
        attention.num_heads,
        attention.context,
        torch.exp(places * (-math.log(inner.max_period) * 2 / width)),
    )


def _linear(weight: Tensor, norm: Any = None, scale: Any = None, *, gelu: bool = False) -> Product:
    """A linear map, with the norm's weights before it and the layer's scale after it multiplied in."""
    weight, bias = weight.float(), None
    if norm is not None:
        require(isinstance(norm, nn.LayerNorm) and norm.eps == 1e-5 and norm.bias is not None, "layer norms")
        weight, bias = weight * norm.weight, _multiplied(weight, norm.bias[:, None])[:, 0]
    if isinstance(getattr(scale, "scale", None), Tensor):
        weight = weight * scale.scale[:, None]
    return Product(weight.contiguous(), bias, weight.shape[1], norm=norm is not None, gelu=gelu)


def _layer(layer: Any) -> Layer:
    attention = layer.self_attn
    require(layer.gating is None and layer.cross_attention is None, "plain feed-forward layers")
    require(layer.activation is nn.functional.gelu, "GELU")
    require(attention.kv_repeat == 1 and len(attention.in_projs) == 1, "one set of weights and keys of every head")
    return Layer(
        _linear(attention.in_projs[0].weight, layer.norm1),
        _linear(attention.out_projs[0].weight, scale=layer.layer_scale_1),
        _linear(layer.linear1.weight, layer.norm2, gelu=True),
        _linear(layer.linear2.weight, scale=layer.layer_scale_2),
    )
