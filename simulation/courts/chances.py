"""The beacon of a unit's life: the played side of the audit's coin, and the choices of the coalition's proposers.

The audit of a settled unit dominates the average, and few units show it: a chance of one in twenty, and a cost of
twenty prices. So such a unit is played twice, audited and not, and each play is weighted by its chance.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from gpu_tasks.market.courts.benches import AUDIT_DELAYS, draw_bench, is_audited
from gpu_tasks.market.courts.cases import STAGE_OF, CaseStage, CourtCase
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.draws import BEACON_DELAY
from runtime.cryptography.hashing import blake2_256
from runtime.pallets.beacon import Beacon
from simulation.chains.market_chain import MarketChain

PPM = 1_000_000
_BENCH_OF = {stage: kind for kind, stage in STAGE_OF.items()}


@dataclass(frozen=True)
class Coin:
    """The audit's outcome for a chain's unit, if it is watched: audited or not."""

    chain: MarketChain
    about: Callable[[], tuple[bytes, CourtCase | None]]
    """Returns the unit's id, and the case about it after the newest block."""
    is_audited: bool

    def value_after(self, output: bytes) -> bytes:
        """Return the beacon's value if the block under construction has this output."""
        return blake2_256(self.chain.now()[Beacon].current.get() + blake2_256(output))

    def allows(self, output: bytes) -> bool:
        """Return whether this output gives the wanted side: the first of the four beacons audits, or none does."""
        case_id, case = self.about()
        if case is None or case.stage is not CaseStage.CHANCE:
            return True
        delay = self.chain.height - case.recorded_at
        if delay not in AUDIT_DELAYS or (self.is_audited and delay != AUDIT_DELAYS[0]):
            return True
        return is_audited([self.value_after(output)], case_id, case.rules.rate_ppm) is self.is_audited


class Outputs(random.Random):
    """The proposers' beacon outputs: random, except for the coin."""

    def __init__(self, seed: str, coin: Coin) -> None:
        """Seed the outputs."""
        super().__init__(seed)
        self.coin = coin

    def randbytes(self, n: int) -> bytes:
        """Return the next output that the coin allows."""
        while True:
            output = super().randbytes(n)
            if self.coin.allows(output):
                return output


class ChosenOutputs(Outputs):
    """Outputs with a choice: in its slots, the coalition may skip its block for the next output."""

    def __init__(self, seed: str, coin: Coin, coalition: frozenset[bytes], share_percent: int) -> None:
        """Give the coalition this share of the slots, in percent."""
        super().__init__(seed, coin)
        self.coalition, self.share_percent = coalition, share_percent

    def randbytes(self, n: int) -> bytes:
        """Return the next output. In a slot of the coalition, return the one of two that seats more of its judges."""
        outputs = [super().randbytes(n)]
        if self.random() * 100 < self.share_percent:
            outputs.append(super().randbytes(n))
        return max(outputs, key=self._seated) if len(outputs) > 1 else outputs[0]

    def _seated(self, output: bytes) -> int:
        case_id, case = self.coin.about()
        kind = _BENCH_OF.get(case.stage) if case is not None else None
        if case is None or kind is None or case.round or case.recorded_at + BEACON_DELAY != self.coin.chain.height:
            return 0
        courts, value = self.coin.chain.now()[Courts], self.coin.value_after(output)
        drawn = draw_bench(value, case_id, kind, courts.entrants(), courts.may_sit(case), case.rules.court_seats)
        return sum(judge in self.coalition for judge, _ in drawn)


def chance_of_audit(rate_ppm: int, chosen_percent: int = 0) -> float:
    """Return the chance that any of the four beacons orders an audit.

    `chosen_percent`: the share of slots whose proposer avoids an audit if either of two outputs allows that.
    """
    asks = Fraction(rate_ppm, len(AUDIT_DELAYS) * PPM)
    chosen = Fraction(chosen_percent, 100)
    each = (1 - chosen) * asks + chosen * asks**2
    return float(1 - (1 - each) ** len(AUDIT_DELAYS))
