"""What GPUs can do, by name: memory, bandwidth, compute capability, float32 speed; from the makers' public figures.

In: a name as torch says it. Out: `Figures`, or None for a card that is not in the table. Must not know: torch, models.

Sources, all NVIDIA's: the GA102, Ada and RTX Blackwell architecture whitepapers (GeForce), the data sheets of T4, L4,
L40S, A100, H100 and H200; for A10G the figures that AWS gives for its G5 instances.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

GIB = 1 << 30
CONTEXT_BYTES = int(0.5 * GIB)  # CUDA's context, the kernels' code and the recorded graphs of one process
RESERVED_BYTES = int(0.4 * GIB)  # what the driver keeps for itself: a 4090's torch sees 23.6 GiB
INLINE_ECC = 15 / 16  # cards that keep check bits in the same GDDR memory


@dataclass(frozen=True)
class Figures:
    """A kind of card.

    Attributes:
        memory_gib: as sold. bandwidth: bytes a second. float32: operations a second, without tensor cores.
        capability: of its kernels. names: as torch says them. inline_ecc: check bits take a sixteenth of the memory.
    """

    memory_gib: float
    bandwidth: float
    float32: float
    capability: tuple[int, int]
    names: tuple[str, ...]
    inline_ecc: bool = False

    @property
    def total_bytes(self) -> int:
        """What torch sees of the memory."""
        return int(self.memory_gib * GIB * (INLINE_ECC if self.inline_ecc else 1)) - RESERVED_BYTES


@dataclass(frozen=True)
class Card:
    """One GPU as it is now.

    Attributes:
        free_bytes: what a process whose CUDA context stands already can still take.
        bandwidth: bytes a second, at best. float32: operations a second, at best.
        remark: how the bandwidth is known, where it is not from the table.
    """

    name: str
    total_bytes: int
    free_bytes: int
    bandwidth: float
    float32: float
    capability: tuple[int, int]
    remark: str = ""


def _geforce(name: str) -> tuple[str, ...]:
    return (f"NVIDIA GeForce {name}",)


CARDS = MappingProxyType(
    {
        "RTX 3090": Figures(24, 936e9, 35.6e12, (8, 6), _geforce("RTX 3090")),
        "RTX 4060": Figures(8, 272e9, 15.1e12, (8, 9), _geforce("RTX 4060")),
        "RTX 4060 Ti 16 GB": Figures(16, 288e9, 22.1e12, (8, 9), _geforce("RTX 4060 Ti")),
        "RTX 4090": Figures(24, 1008e9, 82.6e12, (8, 9), _geforce("RTX 4090")),
        "RTX 5090": Figures(32, 1792e9, 104.8e12, (12, 0), _geforce("RTX 5090")),
        "T4": Figures(16, 320e9, 8.1e12, (7, 5), ("Tesla T4", "NVIDIA T4"), inline_ecc=True),
        "L4": Figures(24, 300e9, 30.3e12, (8, 9), ("NVIDIA L4",), inline_ecc=True),
        "A10G": Figures(24, 600e9, 31.5e12, (8, 6), ("NVIDIA A10G",), inline_ecc=True),
        "L40S": Figures(48, 864e9, 91.6e12, (8, 9), ("NVIDIA L40S",), inline_ecc=True),
        "A100 40 GB": Figures(
            40, 1555e9, 19.5e12, (8, 0), ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-PCIE-40GB", "A100-SXM4-40GB")
        ),
        "A100 80 GB": Figures(80, 1935e9, 19.5e12, (8, 0), ("NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB PCIe")),
        "H100 PCIe": Figures(80, 2000e9, 51e12, (9, 0), ("NVIDIA H100 PCIe",)),
        "H100": Figures(80, 3350e9, 67e12, (9, 0), ("NVIDIA H100 80GB HBM3",)),
        "H200": Figures(140.4, 4800e9, 67e12, (9, 0), ("NVIDIA H200",)),
    }
)


def figures_for(name: str) -> Figures | None:
    """The figures of a card by the whole name that torch says: a laptop's or a sliced card is another card."""
    return next((figures for figures in CARDS.values() if name in figures.names), None)


def fresh_card(name: str) -> Card:
    """A card of the table that runs nothing but one process of ours."""
    figures = CARDS[name]
    total = figures.total_bytes
    return Card(name, total, total - CONTEXT_BYTES, figures.bandwidth, figures.float32, figures.capability)
