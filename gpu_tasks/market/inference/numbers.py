"""The parameters of InferenceMarket, each with its bounds and its reason.

Invariant: a unit follows the `rules` of its post. No later change of these parameters affects it.
"""

from gpu_tasks.market.claims.collateral import check_share, game_rate
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.inference.rules import DEFAULT_RULES, UnitRules
from runtime.encoding.codec import U32
from runtime.encoding.types import GRAINS_PER_OGPU, Balance, BlockNumber
from runtime.frame.pallet import Pallet, Parameter

ALL = 1_000_000
"""The whole, in millionths."""
WINDOW_BLOCKS_MAX = 7_200
"""The longest window of a round, in blocks: eight hours at four seconds a block."""
QUEUE_BLOCKS_LEAST = 8
"""A draw follows its unit's post by at least three blocks, and by more if finality is late."""
CUSTOMER_BOND_PPM = 50_000
DUTY_FEE = 24_000
"""Grains. Two duty fees exceed the cost of a racer's two dearest duties, a commitment and a reveal by transaction.
`genesis.relations` checks this against the tables of weights."""


class MarketNumbers(Pallet):
    """Shares and windows of units, and the costs of a post beyond the price."""

    result_claims: ResultClaims

    witness_share: Parameter[U32] = Parameter(
        DEFAULT_RULES.witness_share, unit="ppm", least=0, greatest=ALL,
        doc="Part of the price for an agreeing runner-up. To check another provider's result must pay.",
    )  # fmt: skip
    settlement_fee: Parameter[U32] = Parameter(
        DEFAULT_RULES.settlement_fee, unit="ppm", least=0, greatest=50_000,
        doc="Part of every payment: half burned, half to the treasury. Trade with oneself must cost.",
    )  # fmt: skip
    settlement_fee_max: Parameter[U32] = Parameter(
        50_000, unit="ppm", is_frozen=True, doc="Upper bound of the settlement fee, for ever."
    )
    fee_rebate: Parameter[U32] = Parameter(
        DEFAULT_RULES.fee_rebate, unit="ppm", least=0, greatest=990_000,
        doc="Part of the fee on the price that goes back to the winner. Below 100 %, so buying from oneself never "
            "pays.",
    )  # fmt: skip
    customer_bond: Parameter[U32] = Parameter(
        CUSTOMER_BOND_PPM, unit="ppm", least=1, greatest=ALL,
        doc="Part of the highest price, held as the customer's bond. A bad input must cost its customer.",
    )  # fmt: skip
    cancel_burn: Parameter[U32] = Parameter(
        DEFAULT_RULES.cancel_burn, unit="ppm", least=0, greatest=ALL,
        doc="Part of the customer's bond, burned when a unit is cancelled. The unit's draws cost every node work.",
    )  # fmt: skip
    # A racer without any collateral could leave before the unit's end, and then no block could end the unit.
    idle_penalty: Parameter[U32] = Parameter(
        DEFAULT_RULES.idle_penalty, unit="ppm", least=0, greatest=ALL - 1,
        doc="Part of the collateral, burned when a racer passes or misses its commit window. Below 100 %, so some "
            "collateral remains.",
    )  # fmt: skip
    withheld_penalty: Parameter[U32] = Parameter(
        DEFAULT_RULES.withheld_penalty, unit="ppm", least=0, greatest=ALL,
        doc="Part of the price, burned when a racer does not open its commitment.",
    )  # fmt: skip
    race_close: Parameter[BlockNumber] = Parameter(
        DEFAULT_RULES.race_close, unit="blocks", least=2, greatest=WINDOW_BLOCKS_MAX,
        doc="Blocks that a race stays open after its first commit, beside the time the first took. Slow racers "
            "must not delay it.",
    )  # fmt: skip
    race_reveal: Parameter[BlockNumber] = Parameter(
        DEFAULT_RULES.race_reveal, unit="blocks", least=4, greatest=WINDOW_BLOCKS_MAX,
        doc="Reveal window, from the block that makes the close final. Long enough that no few authors can keep a "
            "reveal out.",
    )  # fmt: skip
    queue_blocks: Parameter[BlockNumber] = Parameter(
        DEFAULT_RULES.queue_blocks, unit="blocks", least=QUEUE_BLOCKS_LEAST, greatest=100_000,
        doc="Blocks after which an unmatched unit is refunded. A customer's money must not wait for ever.",
    )  # fmt: skip
    unit_keep: Parameter[BlockNumber] = Parameter(
        DEFAULT_RULES.keep_blocks, unit="blocks", least=1, greatest=1_000_000,
        doc="Blocks that the record of an ended unit is kept, so that its customer can still read it after an "
            "absence.",
    )  # fmt: skip
    duty_fee: Parameter[Balance] = Parameter(
        DUTY_FEE, unit="grains", least=1, greatest=10_000_000,
        doc="Prepaid by a post for each duty call that it causes. Providers and checkers then pay nothing for their "
            "duties.",
    )  # fmt: skip
    service_deposit: Parameter[Balance] = Parameter(
        10 * GRAINS_PER_OGPU, unit="grains", least=GRAINS_PER_OGPU, greatest=10_000 * GRAINS_PER_OGPU,
        doc="Deposit for an open service. Many programs read all services, so there must be few.",
    )  # fmt: skip
    unit_deposit: Parameter[Balance] = Parameter(
        GRAINS_PER_OGPU // 10, unit="grains", least=GRAINS_PER_OGPU // 100, greatest=100 * GRAINS_PER_OGPU,
        doc="Deposit for a unit's record, until the record is dropped. Filling the queue must lock much money.",
    )  # fmt: skip
    offer_deposit: Parameter[Balance] = Parameter(
        GRAINS_PER_OGPU // 10, unit="grains", least=GRAINS_PER_OGPU // 100, greatest=100 * GRAINS_PER_OGPU,
        doc="Deposit for an open offer. Every draw of its service reads the offer.",
    )  # fmt: skip

    def rules(self, check_ppm: int = ALL, *, is_checked: bool = True) -> UnitRules:
        """Return the rules of a unit that is posted now.

        `check_ppm` is the cost of a check over the cost of the item, in millionths. `is_checked` is False in an active
        set that is too small for checks.
        """
        return UnitRules(
            witness_share=self.witness_share,
            settlement_fee=self.settlement_fee,
            fee_rebate=self.fee_rebate,
            cancel_burn=self.cancel_burn,
            idle_penalty=self.idle_penalty,
            withheld_penalty=self.withheld_penalty,
            check_rate_ppm=game_rate(self.result_claims.check_rate) if is_checked else 0,
            check_ppm=check_share(check_ppm),
            check_fee_min=self.result_claims.check_fee_min,
            race_close=self.race_close,
            race_reveal=self.race_reveal,
            queue_blocks=self.queue_blocks,
            keep_blocks=self.unit_keep,
        )
