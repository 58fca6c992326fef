"""What a provider says that its work consumed, and which of it no machine can have consumed.

Always: the figures are the provider's word, and no payment depends on them; what is beyond any machine is no figure,
and a statement that says it is not admitted. The bounds are wide: a chain that stood still for long, a meter that reads
coarsely, a machine with many cores are within them.
"""

from runtime.encoding.codec import U64, struct

MS_PER_BLOCK_MAX = 3_600_000
"""Between two blocks: finality may stand still for long, and work goes on meanwhile."""
METER_SLACK_MS = 2_000
"""Meters read once a second, and short work falls between two readings."""
CORES_MAX = 1_024
WATTS_MAX = 2_000
"""Of a device: the largest accelerators of 2025 take 1.4 kW."""
MEMORY_BYTES_MAX = 1 << 44
"""16 TiB."""
WORK_PER_MS_MAX = 1 << 40
"""Units of work: some ten times what the fastest device does of the smallest ones."""


@struct
class Usage:
    """What the work consumed, as the provider measured it."""

    work_units: U64
    gpu_ms: U64
    energy_mj: U64
    cpu_ms: U64
    wall_ms: U64
    memory_peak_bytes: U64


def impossible_usage(usage: Usage, blocks: int) -> str:
    """Why nothing can have consumed this within so many blocks; empty if something can."""
    metered_ms = usage.wall_ms + METER_SLACK_MS
    bounds = (
        ("time", usage.wall_ms, (blocks + 1) * MS_PER_BLOCK_MAX),
        ("GPU time", usage.gpu_ms, metered_ms),
        ("processor time", usage.cpu_ms, metered_ms * CORES_MAX),
        ("energy", usage.energy_mj, metered_ms * WATTS_MAX),
        ("memory", usage.memory_peak_bytes, MEMORY_BYTES_MAX),
        ("work", usage.work_units, metered_ms * WORK_PER_MS_MAX),
    )
    return next((f"more {what} than is possible" for what, used, most in bounds if used > most), "")
