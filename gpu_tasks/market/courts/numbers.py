"""The parameters of Courts, each with its bounds and its reason.

Invariant: a case follows the `rules` of its opening. Its fee and audit rate are those that its handler promised when it
took the work.
"""

from dataclasses import dataclass

from gpu_tasks.market.courts.cases import CaseRules
from runtime.encoding.codec import U8, U32
from runtime.encoding.types import GRAINS_PER_OGPU, Balance, BlockNumber
from runtime.frame.pallet import Pallet, Parameter

WINDOW_BLOCKS_MAX = 7_200
"""The longest window of a case, in blocks."""


@dataclass(frozen=True, slots=True)
class PromisedNumbers:
    """The numbers that a handler promised for a case when it took the work."""

    fee: int
    """The fee of each judge."""
    rate_ppm: int
    """The chance of an audit."""


class CourtNumbers(Pallet):
    """Fees, the chance of an audit, seats and windows."""

    judge_fee_ppm: Parameter[U32] = Parameter(
        500_000, unit="ppm", least=500_000, greatest=1_000_000,
        doc="Fee of a judge, as a part of the price. At least half, so that a seat covers twice the price.",
    )  # fmt: skip
    judge_fee_min: Parameter[Balance] = Parameter(
        GRAINS_PER_OGPU // 1_000, unit="grains", least=1, greatest=GRAINS_PER_OGPU,
        doc="The least fee of a judge. A cheap case must pay for its electricity.",
    )  # fmt: skip
    audit_rate_ppm: Parameter[U32] = Parameter(
        50_000, unit="ppm", least=1_000, greatest=1_000_000,
        doc="Chance of an audit, a fourth by each of four beacons. The collateral follows from it.",
    )  # fmt: skip
    court_seats: Parameter[U8] = Parameter(
        33, unit="judges", least=3, greatest=33,
        doc="Judges of a court, where more are eligible. Buying a third of them must cost a third of the stake.",
    )  # fmt: skip
    commit_blocks: Parameter[BlockNumber] = Parameter(
        20, unit="blocks", least=4, greatest=WINDOW_BLOCKS_MAX,
        doc="Window for a judge to fetch the input, compute and commit, or 1.5 times the run if that is longer.",
    )  # fmt: skip
    open_blocks: Parameter[BlockNumber] = Parameter(
        12, unit="blocks", least=4, greatest=WINDOW_BLOCKS_MAX,
        doc="Window for a judge to open its opinion, from the block that makes the close final.",
    )  # fmt: skip
    appeal_blocks: Parameter[BlockNumber] = Parameter(
        20, unit="blocks", least=4, greatest=WINDOW_BLOCKS_MAX,
        doc="Window to read a verdict and appeal.",
    )  # fmt: skip
    conviction_blocks: Parameter[BlockNumber] = Parameter(
        360, unit="blocks", least=1, greatest=10_000_000,
        doc="Blocks for which a lie counts. The third within them brings the case before the court without an appeal.",
    )  # fmt: skip

    def rules(self, rate_ppm: int) -> CaseRules:
        """Return the rules of a case that opens now, with the promised audit rate."""
        return CaseRules(
            rate_ppm=rate_ppm,
            court_seats=self.court_seats,
            commit_blocks=self.commit_blocks,
            open_blocks=self.open_blocks,
            appeal_blocks=self.appeal_blocks,
        )
