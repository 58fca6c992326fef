"""The resources that a provider states for its work, and the bounds that no machine can exceed.

Invariants: the figures are the provider's claim, and no payment depends on them. A statement with a figure beyond any
machine is not admitted. The bounds are wide: they allow for a chain that halted for long, for coarse meters, and for
machines with many cores.
"""

from runtime.encoding.codec import U64, struct

MS_PER_BLOCK_MAX = 3_600_000
"""The most milliseconds between two blocks. Finality may halt for long while work continues."""
METER_SLACK_MS = 2_000
"""Tolerance in milliseconds: meters read once a second, and short work falls between two readings."""
CORES_MAX = 1_024
WATTS_MAX = 2_000
"""The most watts of a device. The largest accelerators of 2025 draw 1.4 kW."""
MEMORY_BYTES_MAX = 1 << 44
"""16 TiB."""
WORK_PER_MS_MAX = 1 << 40
"""The most units of work in a millisecond: about ten times the fastest device's rate of the smallest ones."""


@struct
class Usage:
    """The resources that the work consumed, as the provider measured them."""

    work_units: U64
    gpu_ms: U64
    energy_mj: U64
    cpu_ms: U64
    wall_ms: U64
    memory_peak_bytes: U64


def impossible_usage(usage: Usage, blocks: int) -> str:
    """Return the reason why no machine can consume this within `blocks` blocks, or "" if one can."""
    metered_ms = usage.wall_ms + METER_SLACK_MS
    bounds = (
        # One block more: work that begins and ends in the same block still takes time.
        ("time", usage.wall_ms, (blocks + 1) * MS_PER_BLOCK_MAX),
        ("GPU time", usage.gpu_ms, metered_ms),
        ("processor time", usage.cpu_ms, metered_ms * CORES_MAX),
        ("energy", usage.energy_mj, metered_ms * WATTS_MAX),
        ("memory", usage.memory_peak_bytes, MEMORY_BYTES_MAX),
        ("work", usage.work_units, metered_ms * WORK_PER_MS_MAX),
    )
    return next(
        (f"impossible {name}" for name, stated_figure, greatest_figure in bounds if stated_figure > greatest_figure), ""
    )
