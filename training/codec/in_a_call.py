"""Mimi over a whole stream in one pass, with the very past that it has in a call.

In: sound [B, 1, N] or latents. Out: latents, codes, sound. Must not know: losses, data.

In a call Mimi's transformers get two positions (one frame) at a time and keep `context` of them in a ring: the second
position has by then overwritten the oldest one, so the first of each pair sees one position less than moshi's own
pass over a whole stream shows it. That alone changes one code in twelve of the first codebook. So training, encoding
and measuring go through this attention.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from moshi.models.compression import MimiModel
from torch import Tensor

from personaplex_app.model.transformer import rotate, rotation

POSITIONS_A_FRAME = 2


def encode_latent(mimi: MimiModel, sound: Tensor) -> Tensor:
    """[B, 1, N] to [B, width, F]."""
    return mimi.downsample(through_transformer(mimi.encoder_transformer, mimi.encoder(sound)))


def decode_latent(mimi: MimiModel, latent: Tensor) -> Tensor:
    """[B, width, F] to [B, 1, N]."""
    return mimi.decoder(through_transformer(mimi.decoder_transformer, mimi.upsample(latent)))


def encode(mimi: MimiModel, sound: Tensor) -> Tensor:
    """[B, N] to codes int64 [B, 8, F]: those that a call would have."""
    return mimi.quantizer.encode(encode_latent(mimi, sound[:, None]))


def decode(mimi: MimiModel, codes: Tensor) -> Tensor:
    """Codes [B, 8, F] to [B, N]."""
    return decode_latent(mimi, mimi.quantizer.decode(codes))[:, 0]


def through_transformer(projected: Any, x: Tensor) -> Tensor:
    """One of Mimi's two transformers over [B, width, T]."""
    hidden = x.transpose(1, 2)
    mask = None
    for layer in projected.transformer.layers:
        attention = layer.self_attn
        split = attention.in_projs[0](layer.norm1(hidden)).unflatten(-1, (3, attention.num_heads, -1))
        query, key, value = split.permute(2, 0, 3, 1, 4)
        cos, sin = rotation(torch.arange(query.shape[2], device=x.device), query.shape[-1], projected_period(layer))
        if mask is None:
            mask = seen(attention.context, x.device)
        attended = _banded(rotate(query, cos, sin), rotate(key, cos, sin), value, mask)
        update = attention.out_projs[0](attended.transpose(1, 2).flatten(2))
        hidden = hidden + layer.layer_scale_1(update)
        update = layer.linear2(layer.activation(layer.linear1(layer.norm2(hidden))))
        hidden = hidden + layer.layer_scale_2(update)
    return hidden.transpose(1, 2)


def projected_period(layer: Any) -> float:
    """The longest wave of the rotary embedding."""
    return float(layer.self_attn.rope.max_period)


def seen(context: int, device: torch.device) -> Tensor:
    """bool [context, 2 * context]: what each position of a block may read of the block before and its own."""
    queries = torch.arange(context, device=device)[:, None]
    keys = torch.arange(-context, context, device=device)[None]
    last_of_frame = queries // POSITIONS_A_FRAME * POSITIONS_A_FRAME + POSITIONS_A_FRAME - 1
    return (keys <= queries) & (keys > last_of_frame - context)


def _banded(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """[B, H, T, E] in blocks of `context`: each reads itself and the block before it."""
    context, length = mask.shape[0], query.shape[2]
    spare = -length % context
    query, key, value = (F.pad(one, (0, 0, 0, spare)).unflatten(2, (-1, context)) for one in (query, key, value))
    before_key, before_value = (F.pad(one, (0, 0, 0, 0, 1, 0))[:, :, :-1] for one in (key, value))
    wide_key, wide_value = torch.cat([before_key, key], 3), torch.cat([before_value, value], 3)
    blocks = query.shape[2]
    allowed = mask.expand(blocks, -1, -1).clone()
    allowed[0, :, :context] = False
    attended = F.scaled_dot_product_attention(query, wide_key, wide_value, attn_mask=allowed)
    return attended.flatten(2, 3)[:, :, :length]
