"""Which migration brings what was found into the form of now."""

from gpu_tasks.market.inference.migrations import from_flat_prices, from_one_clock
from gpu_tasks.market.weights import WEIGHTS
from runtime.encoding.types import Weight
from runtime.frame.measured import times
from runtime.state.overlay import Overlay

VERSION = 2


def migrate(overlay: Overlay, found: int) -> Weight:
    """From any version before; each goes to the form of now at once."""
    count = from_flat_prices.migrate(overlay) if found == 0 else from_one_clock.migrate(overlay)
    return times(count, WEIGHTS["InferenceMarket.on_initialize turn"])
