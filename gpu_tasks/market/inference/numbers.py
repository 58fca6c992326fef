"""The parameters of InferenceMarket, each with its bounds and its reason.

Invariant: a unit follows the `rules` of its post. No later change of these parameters affects it.
"""

from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.inference.rules import DEFAULT_RULES, UnitRules
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
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
DUTY_FEE = 20_000
"""Grains. Two duty fees exceed the cost of a racer's two dearest duties, a commitment and a reveal by transaction.
`genesis.relations` checks this against the tables of weights."""


class MarketNumbers(Pallet):
    """Shares and windows of units, and the costs of a post beyond the price."""

    courts: Courts
    leaf_checks: LeafChecks

    witness_share: Parameter[U32] = Parameter(
        DEFAULT_RULES.witness_share, unit="ppm", least=0, greatest=ALL,
        doc="Of the price, to an agreeing runner-up: to check another's result must pay.",
    )  # fmt: skip
    settlement_fee: Parameter[U32] = Parameter(
        DEFAULT_RULES.settlement_fee, unit="ppm", least=0, greatest=50_000,
        doc="Of every payment, half burned and half the treasury's: to trade with oneself must cost.",
    )  # fmt: skip
    settlement_fee_max: Parameter[U32] = Parameter(
        50_000, unit="ppm", is_frozen=True, doc="The greatest settlement fee that there can ever be."
    )
    fee_rebate: Parameter[U32] = Parameter(
        DEFAULT_RULES.fee_rebate, unit="ppm", least=0, greatest=990_000,
        doc="Of the fee on the price, back to the winner; less than all, so that to buy from oneself never pays.",
    )  # fmt: skip
    customer_bond: Parameter[U32] = Parameter(
        CUSTOMER_BOND_PPM, unit="ppm", least=1, greatest=ALL,
        doc="Of the highest price, held of the customer: a bad input must cost who posts it.",
    )  # fmt: skip
    cancel_burn: Parameter[U32] = Parameter(
        DEFAULT_RULES.cancel_burn, unit="ppm", least=0, greatest=ALL,
        doc="Of the customer's bond, burned when a unit is cancelled: its draws were work for all.",
    )  # fmt: skip
    # A racer without any collateral could leave before the unit's end, and then no block could end the unit.
    idle_penalty: Parameter[U32] = Parameter(
        DEFAULT_RULES.idle_penalty, unit="ppm", least=0, greatest=ALL - 1,
        doc="Of the collateral, burned of a racer that missed a whole commit window; less than all, which holds it.",
    )  # fmt: skip
    withheld_penalty: Parameter[U32] = Parameter(
        DEFAULT_RULES.withheld_penalty, unit="ppm", least=0, greatest=ALL,
        doc="Of the price, burned of a racer that did not open its commitment, where no case comes of it.",
    )  # fmt: skip
    race_close: Parameter[BlockNumber] = Parameter(
        DEFAULT_RULES.race_close, unit="blocks", least=2, greatest=WINDOW_BLOCKS_MAX,
        doc="The others of a race have so long, and as long again as the first took: it must not wait for all.",
    )  # fmt: skip
    race_reveal: Parameter[BlockNumber] = Parameter(
        DEFAULT_RULES.race_reveal, unit="blocks", least=4, greatest=WINDOW_BLOCKS_MAX,
        doc="To reveal in, once the close is final: long enough that no few authors can leave a reveal out.",
    )  # fmt: skip
    queue_blocks: Parameter[BlockNumber] = Parameter(
        DEFAULT_RULES.queue_blocks, unit="blocks", least=QUEUE_BLOCKS_LEAST, greatest=100_000,
        doc="Blocks after which an unmatched unit is refunded: no customer's money waits for ever.",
    )  # fmt: skip
    unit_keep: Parameter[BlockNumber] = Parameter(
        DEFAULT_RULES.keep_blocks, unit="blocks", least=1, greatest=1_000_000,
        doc="Blocks that the record of an ended unit is kept, for who was away to read it.",
    )  # fmt: skip
    duty_fee: Parameter[Balance] = Parameter(
        DUTY_FEE, unit="grains", least=1, greatest=10_000_000,
        doc="What a post prepays for each duty call that it causes: those who do the duties pay nothing.",
    )  # fmt: skip
    service_deposit: Parameter[Balance] = Parameter(
        10 * GRAINS_PER_OGPU, unit="grains", least=GRAINS_PER_OGPU, greatest=10_000 * GRAINS_PER_OGPU,
        doc="Held for an open service: there are few, and each is looked at by many.",
    )  # fmt: skip
    unit_deposit: Parameter[Balance] = Parameter(
        GRAINS_PER_OGPU // 10, unit="grains", least=GRAINS_PER_OGPU // 100, greatest=100 * GRAINS_PER_OGPU,
        doc="Held for the record of a unit until that is dropped: who fills the queue must lock as much.",
    )  # fmt: skip
    offer_deposit: Parameter[Balance] = Parameter(
        GRAINS_PER_OGPU // 10, unit="grains", least=GRAINS_PER_OGPU // 100, greatest=100 * GRAINS_PER_OGPU,
        doc="Held for an offer while it stands: every draw of its service reads it.",
    )  # fmt: skip

    def rules(self) -> UnitRules:
        """Return the rules of a unit that is posted now."""
        return UnitRules(
            witness_share=self.witness_share,
            settlement_fee=self.settlement_fee,
            fee_rebate=self.fee_rebate,
            cancel_burn=self.cancel_burn,
            idle_penalty=self.idle_penalty,
            withheld_penalty=self.withheld_penalty,
            judge_fee_ppm=self.courts.judge_fee_ppm,
            judge_fee_min=self.courts.judge_fee_min,
            audit_rate_ppm=self.courts.audit_rate_ppm,
            race_close=self.race_close,
            race_reveal=self.race_reveal,
            queue_blocks=self.queue_blocks,
            keep_blocks=self.unit_keep,
        )
