"""Block sizes of the codec's products, by their shape; nothing is tried out at run time.

In: how many positions, outputs and inputs. Out: a tile.
Must not know: weights, kernels' arguments. The figures suit an H200: 132 multiprocessors.
"""

from __future__ import annotations

from dataclasses import dataclass

MOST_FEW_POSITIONS = 4
MOST_WHOLE_INPUTS = 4096
ENOUGH_PROGRAMS = 180
MOST_SPLITS = 16
LEAST_DEPTH = 128  # of a split, where a larger tile would need the splits
MOST_PARTS = 4 * ENOUGH_PROGRAMS
LARGEST_PART = 128 * 64
ENTRIES_A_SEARCH = 16  # entries of a codebook that one program compares
CHANNELS_A_LOOK_UP = 64
SAMPLES_A_PROGRAM = 16
CHANNELS_A_MOVE = 128
KEYS_A_TURN = 128
_TILES = ((128, 64), (64, 64), (64, 32), (32, 32), (16, 32))


@dataclass(frozen=True)
class Tile:
    """Positions, outputs and inputs of a program's block; `splits` programs share the inputs of one block."""

    positions: int
    outputs: int
    inputs: int
    splits: int = 1
    warps: int = 4


def power_of_two(number: int) -> int:
    """The smallest power of two that is not less."""
    return 1 << max(0, number - 1).bit_length()


def tile_for(positions: int, outputs: int, inputs: int, *, whole: bool, scattered: bool) -> Tile:
    """A product's tile.

    Args:
        whole: the inputs are normalized first: a tile of few positions spans them all.
        scattered: a window lies in several pieces: addresses take registers, so tiles stay small.
    """
    if positions <= MOST_FEW_POSITIONS and not (whole and inputs > MOST_WHOLE_INPUTS):
        return _few_tile(positions, outputs, inputs, whole)
    return _many_tile(positions, outputs, inputs, _TILES[3:] if scattered else _TILES)


def is_few(tile: Tile) -> bool:
    """Whether the tile is one for one to four positions."""
    return tile.positions <= MOST_FEW_POSITIONS


def rows_a_search(rows: int) -> int:
    """Rows that one program of the codebook search takes one after another."""
    return 1 if rows <= 2 else 4 if rows <= 16 else 8


def _few_tile(positions: int, outputs: int, inputs: int, whole: bool) -> Tile:
    depth = power_of_two(inputs)
    if not whole:
        depth = min(depth, 1024 if positions <= 2 else 512)
    across = 4
    while across > 1 and (-(-outputs // across) < ENOUGH_PROGRAMS or across * depth > 4096):
        across //= 2
    return Tile(power_of_two(positions), across, depth)


def _many_tile(positions: int, outputs: int, inputs: int, tiles: tuple[tuple[int, int], ...]) -> Tile:
    """The largest tile that leaves enough programs, if need be by splitting the inputs."""
    for most_positions, most_outputs in tiles:
        high = min(most_positions, max(16, power_of_two(positions)))
        wide = min(most_outputs, max(16, power_of_two(outputs)))
        splits = power_of_two(-(-ENOUGH_PROGRAMS // (-(-positions // high) * -(-outputs // wide))))
        if splits == 1 or (splits <= MOST_SPLITS and inputs // splits >= LEAST_DEPTH):
            break
    else:
        splits = min(splits, MOST_SPLITS, power_of_two(inputs // 64 + 1) // 2 or 1)
    depth = min(32 if high * wide >= 4096 else 64, max(16, power_of_two(inputs)))
    return Tile(high, wide, depth, splits, 8 if high * wide > 4096 else 4)
