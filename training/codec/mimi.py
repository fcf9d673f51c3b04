"""Mimi as training needs it: made, started, run with and without its quantizer, saved and read back.

In: sizes. Out: moshi's `MimiModel`, its quantizer as a function. Must not know: losses, data.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from moshi.models import loaders
from moshi.models.compression import MimiModel
from safetensors.torch import load_file
from torch import Tensor, nn

from training.codec.in_a_call import decode_latent, encode_latent
from training.sizes import CodecSizes, mimi_config

CODEBOOKS = 8
UNQUANTIZED_SHARE = 0.25  # of the rows: keeps the encoder's gradient clean
COMMITMENT = 0.25
LATENT_WEIGHT = 0.005
OUTPUT_STANDARD = 0.05  # of the last convolution, at the start


def make_mimi(sizes: CodecSizes, device: torch.device) -> MimiModel:
    """Mimi with fresh weights."""
    mimi = loaders.get_mimi(None, mimi_config(sizes), device=device, num_codebooks=CODEBOOKS)
    for book in books(mimi):
        book._check_expired_codes = torch.no_grad()(book._check_expired_codes)  # else codebooks ask for gradients
        book.check_unused_every = book._next_unused_check = 1  # every step alike, so that a step can be recorded
    return mimi.requires_grad_(True)


def books(mimi: MimiModel) -> list[Any]:
    """The eight codebooks."""
    quantizer = mimi.quantizer
    return [layer._codebook for layer in [*quantizer.rvq_first.vq.layers, *quantizer.rvq_rest.vq.layers]]


def quantize(mimi: MimiModel, latent: Tensor, on: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Latents as the first codebook and as the other seven give them back, and a penalty.

    Off, latents pass: encoder and codebooks would else collapse together at the beginning.
    """
    first, rest = mimi.quantizer.rvq_first, mimi.quantizer.rvq_rest
    with torch.autocast(latent.device.type, enabled=False):
        latent = latent.float()
        narrow, narrow_rest = first.input_proj(latent), rest.input_proj(latent)
        penalty = LATENT_WEIGHT * (narrow.square().mean() + narrow_rest.square().mean())
        plain, plain_rest = first.output_proj(narrow), rest.output_proj(narrow_rest)
        if not on:
            return plain, plain_rest, penalty
        # moshi's forward of the whole quantizer would wait for the host, to say how many bits a second pass.
        coded, _, missed, _ = first.vq(narrow, n_q=first.n_q)
        coded_rest, _, missed_rest, _ = rest.vq(narrow_rest, n_q=rest.n_q)
        coded, coded_rest = first.output_proj(coded), rest.output_proj(coded_rest)
        free = (torch.rand(latent.shape[0], 1, 1, device=latent.device) < UNQUANTIZED_SHARE).float()
        penalty = penalty + COMMITMENT * (missed.mean() + missed_rest.mean())
        return coded * (1 - free) + plain * free, coded_rest * (1 - free) + plain_rest * free, penalty


@torch.no_grad()
def start_at_unit_variance(mimi: MimiModel, sound: Tensor) -> None:
    """Scales every convolution so that it answers real sound [B, 1, N] with unit variance: deep stacks else fade."""
    every = [module for module in mimi.modules() if isinstance(module, nn.Conv1d | nn.ConvTranspose1d)]
    last = [module for module in mimi.decoder.modules() if isinstance(module, nn.Conv1d)][-1]

    def rescale(module: Any, _: Any, answer: Tensor) -> Tensor:
        factor = answer.std().clamp(min=1e-6) / (OUTPUT_STANDARD if module is last else 1.0)
        module.weight.data /= factor
        return answer / factor

    for module in every:
        if module.bias is not None:
            module.bias.data.zero_()
    hooks = [module.register_forward_hook(rescale) for module in every]
    first, rest, _ = quantize(mimi, encode_latent(mimi, sound), on=False)
    decode_latent(mimi, first + rest)
    for hook in hooks:
        hook.remove()


def begin_with(mimi: MimiModel, path: Path) -> None:
    """Takes over a packaged codec of the same architecture, to be trained on."""
    _take(mimi, load_file(path))


def _take(mimi: MimiModel, stored: dict[str, Tensor]) -> None:
    """A file's tensors, in float32."""
    mimi.load_state_dict({name: one.float() if one.is_floating_point() else one for name, one in stored.items()})


def save_mimi(mimi: MimiModel, path: Path) -> None:
    """Weights in half precision, codebooks whole; first beside the place, then in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    torch.save({name: _stored(name, tensor) for name, tensor in mimi.state_dict().items()}, partial)
    partial.replace(path)


def _stored(name: str, tensor: Tensor) -> Tensor:
    half = tensor.is_floating_point() and "quantizer" not in name
    return (tensor.half() if half else tensor).detach().cpu()


def load_mimi(path: Path, sizes: CodecSizes, device: torch.device) -> MimiModel:
    """The trained codec as it was saved, in float32, for use."""
    mimi = make_mimi(sizes, device)
    _take(mimi, torch.load(path, map_location=device, weights_only=True))
    return mimi.requires_grad_(False).eval()
