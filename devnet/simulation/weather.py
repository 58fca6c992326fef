"""The virtual network: delay with a long tail, loss, duplicates, partitions of one or both ways; nothing in order."""

from dataclasses import dataclass
from random import Random

TAIL_FACTOR_MAX = 20
DUPLICATE_LATE_MAX_MS = 8_000


@dataclass(slots=True)
class Weather:
    """How links behave now: one-way delay in ms, shares in percent, and who can reach whom."""

    delay_min_ms: int
    delay_max_ms: int
    loss_percent: int = 0
    side: tuple[int, ...] = ()  # group of each node; empty: one group
    one_way: bool = False  # group 0 still reaches the others
    tail_percent: int = 0
    duplicate_percent: int = 0

    def travels_ms(self, sender: int, receiver: int, random: Random) -> list[int]:
        """Delays of the copies that arrive of a message sent now; none if it is lost."""
        if self.side and self.side[sender] != self.side[receiver] and not (self.one_way and self.side[sender] == 0):
            return []
        if self.loss_percent and random.randrange(100) < self.loss_percent:
            return []
        travels = [random.randint(self.delay_min_ms, self.delay_max_ms)]
        if self.tail_percent and random.randrange(100) < self.tail_percent:
            travels[0] *= random.randint(2, TAIL_FACTOR_MAX)
        if self.duplicate_percent and random.randrange(100) < self.duplicate_percent:
            travels.append(travels[0] + random.randrange(DUPLICATE_LATE_MAX_MS))
        return travels
