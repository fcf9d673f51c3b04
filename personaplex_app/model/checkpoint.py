"""A checkpoint directory in the Hub repository's layout, checked before a single weight is read.

In: a directory. Out: a `Checkpoint` (paths, configuration, how many depth steps the file stacks), or InvalidInput
that names the missing, misshapen or surplus tensor.
Must not know: devices, modules' internals beyond their names.

Tensor names are the older Moshi ones: one fused attention matrix a layer; for the depth transformer the steps'
matrices stacked along axis 0. The released file stacks 16 steps of which the first 8 are the agent's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open

from personaplex_app.errors import InvalidInput
from personaplex_app.model.config import CODEBOOKS, STREAMS, CheckpointConfig, LanguageConfig, read_config
from personaplex_app.model.row_scaled import with_scales_folded

WEIGHTS_FILE = "model.safetensors"
CODEC_FILE = "tokenizer-e351c8d8-checkpoint125.safetensors"
TOKENIZER_FILE = "tokenizer_spm_32k_3.model"
CONFIG_FILE = "config.json"
VOICES_DIR = "voices"
VOICES_ARCHIVE = "voices.tgz"
FLOAT_DTYPES = {"BF16", "F16", "F32"}
STACKED_STEPS = (16, 8)


@dataclass(frozen=True)
class Placement:
    """Where one tensor of the file goes.

    Attributes:
        source: name in the file. shape: its shape there.
        target: parameter name in our modules, `temporal.` or `depth.` first.
        rows: which rows of the source belong there; None for all.
        into: first row of the target that they fill (several sources may share one target).
    """

    source: str
    shape: tuple[int, ...]
    target: str
    rows: slice | None = None
    into: int = 0


@dataclass(frozen=True)
class Checkpoint:
    """A directory whose files are there and whose tensors fit."""

    directory: Path
    config: CheckpointConfig
    stacked_steps: int

    @property
    def weights(self) -> Path:
        return self.directory / WEIGHTS_FILE

    @property
    def codec(self) -> Path:
        return self.directory / CODEC_FILE

    @property
    def tokenizer(self) -> Path:
        return self.directory / TOKENIZER_FILE

    @property
    def identity(self) -> str:
        """Names what lies in the files now, by their sizes and times; another checkpoint has another one."""
        digest = hashlib.sha256()
        single = [self.directory / name for name in (CONFIG_FILE, VOICES_ARCHIVE)]
        voices = sorted((self.directory / VOICES_DIR).glob("*.pt"))
        for path in (self.weights, self.codec, self.tokenizer, *single, *voices):
            if path.is_file():
                found = path.stat()
                digest.update(f"{path.name} {found.st_size} {found.st_mtime_ns}\n".encode())
        return digest.hexdigest()[:16]

    def placements(self) -> Iterator[Placement]:
        """Every tensor to read, steps 8 and beyond left out."""
        return placements(self.config.language, self.stacked_steps)


def open_checkpoint(directory: Path, *, allow_surplus: bool = False) -> Checkpoint:
    """Checks files, names, shapes and dtypes of a checkpoint directory; raises InvalidInput in one sentence."""
    if not directory.is_dir():
        raise InvalidInput(f"There is no checkpoint directory {directory}.")
    for name in (WEIGHTS_FILE, CODEC_FILE, TOKENIZER_FILE):
        if not (directory / name).is_file():
            raise InvalidInput(f"The checkpoint {directory} lacks the file {name}.")
    config = read_config(directory / CONFIG_FILE)
    found = with_scales_folded(_read_header(directory / WEIGHTS_FILE))
    stacked = _stacked_steps(config.language, found)
    _check(found, config.language, stacked, directory / WEIGHTS_FILE, allow_surplus)
    return Checkpoint(directory, config, stacked)


def _read_header(path: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    try:
        with safe_open(path, framework="pt") as file:
            names = file.keys()
            slices = {name: file.get_slice(name) for name in names}
            return {name: (tuple(part.get_shape()), part.get_dtype()) for name, part in slices.items()}
    except (SafetensorError, OSError) as error:
        raise InvalidInput(f"{path} is not a whole safetensors file ({error}).") from None


def _stacked_steps(config: LanguageConfig, found: dict[str, tuple[tuple[int, ...], str]]) -> int:
    shape, _ = found.get("depformer.layers.0.self_attn.in_proj_weight", ((), ""))
    for steps in STACKED_STEPS:
        if shape and shape[0] == steps * 3 * config.depth_dim:
            return steps
    return 16 if "linears.15.weight" in found else 8


def _check(
    found: dict[str, tuple[tuple[int, ...], str]],
    config: LanguageConfig,
    stacked: int,
    path: Path,
    allow_surplus: bool,
) -> None:
    expected = file_tensors(config, stacked)
    for name, shape in expected.items():
        if name not in found:
            raise InvalidInput(f"{path} lacks the tensor {name} of shape {list(shape)}.")
        got, dtype = found[name]
        if got != shape:
            raise InvalidInput(f"{path}: the tensor {name} has shape {list(got)}, expected is {list(shape)}.")
        if dtype not in FLOAT_DTYPES:
            raise InvalidInput(f"{path}: the tensor {name} is {dtype}; expected is one of {sorted(FLOAT_DTYPES)}.")
    surplus = sorted(set(found) - set(expected))
    if surplus and not allow_surplus:
        more = f" and {len(surplus) - 1} more" if len(surplus) > 1 else ""
        raise InvalidInput(
            f"{path} holds the unknown tensor {surplus[0]}{more}; --allow-surplus loads it without them."
        )


def file_tensors(config: LanguageConfig, stacked: int) -> dict[str, tuple[int, ...]]:
    """Every tensor that the file must hold, by name, with its shape; in the order in which they are read."""
    expected = {item.source: item.shape for item in placements(config, stacked)}
    return expected | dict(_unused(config, stacked))


def placements(config: LanguageConfig, stacked: int) -> Iterator[Placement]:
    """Maps a file with `stacked` depth steps (16 or 8) onto our modules, only the 8 agent steps taken."""
    yield from _temporal(config)
    yield from _depth_tables(config)
    for layer in range(config.depth_layers):
        yield from _depth_layer(config, layer, stacked)


def _temporal(config: LanguageConfig) -> Iterator[Placement]:
    dim, rows = config.dim, config.audio_card + 1
    yield Placement("text_emb.weight", (config.text_card + 1, dim), "temporal.text_emb.weight")
    for stream in range(STREAMS - 1):
        yield Placement(f"emb.{stream}.weight", (rows, dim), "temporal.audio_emb.weight", into=stream * rows)
    for index in range(config.layers):
        theirs, ours = f"transformer.layers.{index}", f"temporal.layers.{index}"
        yield Placement(f"{theirs}.norm1.alpha", (1, 1, dim), f"{ours}.norm1.alpha")
        yield Placement(f"{theirs}.self_attn.in_proj_weight", (3 * dim, dim), f"{ours}.in_proj.weight")
        yield Placement(f"{theirs}.self_attn.out_proj.weight", (dim, dim), f"{ours}.out_proj.weight")
        yield Placement(f"{theirs}.norm2.alpha", (1, 1, dim), f"{ours}.norm2.alpha")
        yield Placement(f"{theirs}.gating.linear_in.weight", (2 * config.hidden, dim), f"{ours}.gate_in.weight")
        yield Placement(f"{theirs}.gating.linear_out.weight", (dim, config.hidden), f"{ours}.gate_out.weight")
    yield Placement("out_norm.alpha", (1, 1, dim), "temporal.out_norm.alpha")
    yield Placement("text_linear.weight", (config.text_card, dim), "temporal.text_linear.weight")


def _depth_tables(config: LanguageConfig) -> Iterator[Placement]:
    dim, card = config.depth_dim, config.audio_card
    yield Placement("depformer_text_emb.weight", (config.text_card + 1, dim), "depth.text_emb.weight")
    for step in range(CODEBOOKS):
        yield Placement(f"depformer_in.{step}.weight", (dim, config.dim), "depth.in_proj.weight", into=step * dim)
        yield Placement(f"linears.{step}.weight", (card, dim), f"depth.heads.{step}.weight")
        if step < CODEBOOKS - 1:
            yield Placement(f"depformer_emb.{step}.weight", (card + 1, dim), f"depth.audio_emb.{step}.weight")


def _depth_layer(config: LanguageConfig, layer: int, stacked: int) -> Iterator[Placement]:
    dim, theirs = config.depth_dim, f"depformer.layers.{layer}"
    for step in range(CODEBOOKS):
        ours = f"depth.steps.{step}.{layer}"
        for norm in ("norm1", "norm2"):
            yield Placement(f"{theirs}.{norm}.alpha", (1, 1, dim), f"{ours}.{norm}.alpha")
        for name, height, target in (("in_proj_weight", 3 * dim, "in_proj"), ("out_proj.weight", dim, "out_proj")):
            rows = slice(step * height, (step + 1) * height)
            shape = (stacked * height, dim)
            yield Placement(f"{theirs}.self_attn.{name}", shape, f"{ours}.{target}.weight", rows)
        gate = f"{theirs}.gating.{step}"
        yield Placement(f"{gate}.linear_in.weight", (2 * config.depth_hidden, dim), f"{ours}.gate_in.weight")
        yield Placement(f"{gate}.linear_out.weight", (dim, config.depth_hidden), f"{ours}.gate_out.weight")


def _unused(config: LanguageConfig, stacked: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Tensors of the steps that predict the user's codes: they must be there and fit, but are never read."""
    dim, card = config.depth_dim, config.audio_card
    for step in range(CODEBOOKS, stacked):
        yield f"depformer_in.{step}.weight", (dim, config.dim)
        yield f"linears.{step}.weight", (card, dim)
        yield f"depformer_emb.{step - 1}.weight", (card + 1, dim)
        for layer in range(config.depth_layers):
            gate = f"depformer.layers.{layer}.gating.{step}"
            yield f"{gate}.linear_in.weight", (2 * config.depth_hidden, dim)
            yield f"{gate}.linear_out.weight", (dim, config.depth_hidden)
