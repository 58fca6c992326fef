"""The beacon outputs of a coalition's proposers, which may skip a slot for judges of their own."""

import random
from collections.abc import Callable

from gpu_tasks.market.courts.benches import draw_bench
from gpu_tasks.market.courts.cases import STAGE_OF, CourtCase
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.draws import BEACON_DELAY
from runtime.cryptography.hashing import blake2_256
from runtime.pallets.beacon import Beacon
from simulation.chains.market_chain import MarketChain

_BENCH_OF = {stage: kind for kind, stage in STAGE_OF.items()}


class ChosenOutputs(random.Random):
    """Beacon outputs with a choice: in its slots, the coalition may skip its block for the next output."""

    def __init__(
        self,
        seed: str,
        chain: MarketChain,
        about: Callable[[], tuple[bytes, CourtCase | None]],
        coalition: frozenset[bytes],
        share_percent: int,
    ) -> None:
        """Give the coalition this share of the slots, in percent. `about` returns the case after the newest block."""
        super().__init__(seed)
        self.chain, self.about, self.coalition, self.share_percent = chain, about, coalition, share_percent

    def randbytes(self, n: int) -> bytes:
        """Return the next output. In a slot of the coalition, return the one of two that seats more of its judges."""
        outputs = [super().randbytes(n)]
        if self.random() * 100 < self.share_percent:
            outputs.append(super().randbytes(n))
        return max(outputs, key=self._seated) if len(outputs) > 1 else outputs[0]

    def _seated(self, output: bytes) -> int:
        case_id, case = self.about()
        kind = _BENCH_OF.get(case.stage) if case is not None else None
        if case is None or kind is None or case.round or case.recorded_at + BEACON_DELAY != self.chain.height:
            return 0
        courts, value = self.chain.now()[Courts], self._value_after(output)
        drawn = draw_bench(value, case_id, kind, courts.entrants(), courts.may_sit(case), case.rules.court_seats)
        return sum(judge in self.coalition for judge, _ in drawn)

    def _value_after(self, output: bytes) -> bytes:
        """Return the beacon's value if the block under construction has this output."""
        return blake2_256(self.chain.now()[Beacon].current.get() + blake2_256(output))
