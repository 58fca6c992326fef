"""The virtual network: delay, loss, partitions; nothing arrives in order, nothing arrives twice."""

from dataclasses import dataclass
from random import Random


@dataclass(slots=True)
class Weather:
    """How links behave now: one-way delay in ms, loss in percent, and who can reach whom."""

    delay_min_ms: int
    delay_max_ms: int
    loss_percent: int = 0
    side: tuple[int, ...] = ()  # group of each node; empty: one group

    def travel_ms(self, sender: int, receiver: int, random: Random) -> int | None:
        """Delay of a message sent now; None if it is lost."""
        if self.side and self.side[sender] != self.side[receiver]:
            return None
        if self.loss_percent and random.randrange(100) < self.loss_percent:
            return None
        return random.randint(self.delay_min_ms, self.delay_max_ms)
