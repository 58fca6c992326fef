"""Whether a node has caught up: what it may do only then, it does not do for a past that it is still reading."""

from __future__ import annotations

from consensus.parameters import Parameters

TIP_SLOTS = 20
"""How old a final block may be, beside what an idle chain waits for its next one; finality takes some slots."""


def is_at_tip(parameters: Parameters, slot: int, now_ms: int) -> bool:
    """Whether a final block of that slot is as new as the newest one of a chain that goes on."""
    return now_ms // parameters.slot_ms - slot <= TIP_SLOTS + 3 * parameters.heartbeat_slots
