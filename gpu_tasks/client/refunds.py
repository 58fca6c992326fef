"""Why a unit ended without a result, in words: its record says so, for as long as there is one."""

from __future__ import annotations

from gpu_tasks.market.inference.units import Refund, Unit

REASONS = {
    Refund.CANCELLED: "cancelled by the key that posted it",
    Refund.EXPIRED: "no result in the time that a unit may wait for one",
    Refund.INPUT_BAD: "a committee found that its input cannot be used",
    Refund.INCONCLUSIVE: "no committee could decide; the bond is gone if hardly a judge had its input",
}


def why_refunded(unit: Unit) -> str:
    """A sentence: in which block a refunded unit ended, and why."""
    assert unit.refund is not None, "a refunded unit says why"
    return f"refunded in block {unit.ended_at}: {REASONS[unit.refund]}"
