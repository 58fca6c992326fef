"""The beacon of a unit's life: which side of the audit's coin is played, and what proposers of the coalition choose.

Whether a settled unit is audited is the one chance that the average hangs on and few units show: one in twenty, for
twenty prices. So such a unit is played twice, audited and not, and each counts as much as it is likely.
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
    """Whether the unit of a chain is to be audited, if it comes to that."""

    chain: MarketChain
    about: Callable[[], tuple[bytes, CourtCase | None]]
    """The unit's id, and the case about it as the newest block left it."""
    is_audited: bool

    def value_after(self, output: bytes) -> bytes:
        """The beacon's value if the block under construction has this output."""
        return blake2_256(self.chain.now()[Beacon].current.get() + blake2_256(output))

    def allows(self, output: bytes) -> bool:
        """Whether the coin falls as it should with this output: the first of the four beacons asks, or none does."""
        case_id, case = self.about()
        if case is None or case.stage is not CaseStage.CHANCE:
            return True
        delay = self.chain.height - case.recorded_at
        if delay not in AUDIT_DELAYS or (self.is_audited and delay != AUDIT_DELAYS[0]):
            return True
        return is_audited([self.value_after(output)], case_id, case.rules.rate_ppm) is self.is_audited


class Outputs(random.Random):
    """What proposers put into the beacon: chance, but for the coin."""

    def __init__(self, seed: str, coin: Coin) -> None:
        """The same seed gives the same outputs."""
        super().__init__(seed)
        self.coin = coin

    def randbytes(self, n: int) -> bytes:
        """The next output that the coin allows."""
        while True:
            output = super().randbytes(n)
            if self.coin.allows(output):
                return output


class ChosenOutputs(Outputs):
    """Where a slot is the coalition's, it may skip its block, and has the next one's output."""

    def __init__(self, seed: str, coin: Coin, coalition: frozenset[bytes], share_percent: int) -> None:
        """So many percent of the slots are the coalition's."""
        super().__init__(seed, coin)
        self.coalition, self.share_percent = coalition, share_percent

    def randbytes(self, n: int) -> bytes:
        """Of two outputs, in the coalition's slots, the one that seats more of its judges."""
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
    """How likely any of the four beacons asks for an audit.

    `chosen_percent`: of the slots, those whose proposer asks for none if either of two outputs allows that.
    """
    asks = Fraction(rate_ppm, len(AUDIT_DELAYS) * PPM)
    chosen = Fraction(chosen_percent, 100)
    each = (1 - chosen) * asks + chosen * asks**2
    return float(1 - (1 - each) ** len(AUDIT_DELAYS))
