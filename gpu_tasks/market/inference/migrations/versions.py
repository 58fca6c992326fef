"""Which migration brings what was found into the form of now."""

from gpu_tasks.market.inference.migrations import from_any_class, from_flat_prices, from_one_clock
from gpu_tasks.market.weights import WEIGHTS
from runtime.encoding.types import Weight
from runtime.frame.measured import times
from runtime.state.overlay import Overlay

VERSION = 3
_FROM = (from_flat_prices.migrate, from_one_clock.migrate, from_any_class.migrate)
"""By the version that was found."""


def migrate(overlay: Overlay, found: int) -> Weight:
    """From any version before; each goes to the form of now at once."""
    return times(_FROM[found](overlay), WEIGHTS["InferenceMarket.on_initialize turn"])
