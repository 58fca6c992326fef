"""The parameters of TrainingMarket, each with its bounds and its reason.

Invariant: a task follows the `rules` and `windows` of its submission. No later change of these parameters affects it.
"""

from collections.abc import Callable
from dataclasses import fields

from gpu_tasks.market.claims.collateral import check_share, game_rate
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.training.orders import CheckedBy, TaskOrder
from gpu_tasks.market.training.rules import DEFAULT_RULES, TaskRules
from gpu_tasks.market.training.tasks import TaskWindows
from runtime.encoding.codec import U32
from runtime.encoding.types import GRAINS_PER_OGPU, Balance, BlockNumber
from runtime.frame.pallet import Pallet, Parameter

ALL = 1_000_000
"""The whole, in millionths."""
_COMPUTED = ("check_rate_ppm", "check_ppm", "check_fee_min", "collateral_ppm")
"""Rules without a parameter of their name in this pallet."""
WINDOW_BLOCKS_MAX = 50_000
"""The longest window of a task, in blocks: about a day at two seconds a block."""
AUCTION_BLOCKS_LEAST = 4
"""The least blocks of an auction's windows. An author with a third of the stake fills four blocks in a row once in 81
times."""


def task_rules(
    read: Callable[[str], int],
    *,
    check_fee_min: int,
    checked_by: CheckedBy = CheckedBy.EXECUTED,
    check_ppm: int = ALL,
    is_checked: bool = True,
) -> TaskRules:
    """Return the rules of a task from `read(name)`, mostly the parameters of their names.

    `check_ppm` is the cost of a check over the cost of the item, in millionths. `is_checked` is False in an active set
    that is too small for checks. Nobody checks bought time, which cannot be computed again, and replicas, whose
    majority decides. The least collateral of a replica is one greatest price: alone a false result is always outvoted,
    so its provider loses the collateral and its pay. No collateral deters a coalition with most places, because it
    reads the draw before it lies.
    """
    named_numbers = {field.name: read(field.name) for field in fields(TaskRules) if field.name not in _COMPUTED}
    if checked_by is CheckedBy.EXECUTED:
        rate_ppm = game_rate(read("check_rate")) if is_checked else 0
        share, collateral_ppm = check_share(check_ppm), 0
    else:
        rate_ppm, share = 0, 0
        collateral_ppm = ALL if checked_by is CheckedBy.REPLICATED else read("time_collateral")
    return TaskRules(
        **named_numbers,
        check_rate_ppm=rate_ppm,
        check_ppm=share,
        check_fee_min=check_fee_min,
        collateral_ppm=collateral_ppm,
    )


class TrainingNumbers(Pallet):
    """Shares and windows of tasks, and the costs of a task beyond its price."""

    result_claims: ResultClaims

    settlement_fee: Parameter[U32] = Parameter(
        DEFAULT_RULES.settlement_fee, unit="ppm", least=0, greatest=50_000,
        doc="Part of every payment for work: half burned, half to the treasury. Trade with oneself must cost.",
    )  # fmt: skip
    customer_bond: Parameter[U32] = Parameter(
        DEFAULT_RULES.customer_bond, unit="ppm", least=1, greatest=ALL,
        doc="Customer's bond: held of the greatest price, lost of the price paid. A missing input must cost its "
            "customer.",
    )  # fmt: skip
    bid_bond: Parameter[U32] = Parameter(
        DEFAULT_RULES.bid_bond, unit="ppm", least=10_000, greatest=ALL,
        doc="Part of the greatest price, locked by a bid and burned without a reveal. Two bids to choose from must "
            "not pay.",
    )  # fmt: skip
    standby_share: Parameter[U32] = Parameter(
        DEFAULT_RULES.standby_share, unit="ppm", least=0, greatest=200_000,
        doc="Part of the price for the standby, which is ready to take over until the first milestone.",
    )  # fmt: skip
    cancel_burn: Parameter[U32] = Parameter(
        DEFAULT_RULES.cancel_burn, unit="ppm", least=0, greatest=ALL,
        doc="Part of the customer's bond, burned when a task is cancelled before its award. Bids cost providers work.",
    )  # fmt: skip
    no_start_penalty: Parameter[U32] = Parameter(
        DEFAULT_RULES.no_start_penalty, unit="ppm", least=0, greatest=ALL,
        doc="Part of the greatest price, lost by a provider that does not start its awarded slot.",
    )  # fmt: skip
    failure_penalty: Parameter[U32] = Parameter(
        DEFAULT_RULES.failure_penalty, unit="ppm", least=0, greatest=ALL,
        doc="Part of the unearned price, lost by a provider that starts and does not finish.",
    )  # fmt: skip
    late_penalty_factor: Parameter[U32] = Parameter(
        DEFAULT_RULES.late_penalty_factor, unit="times", least=1, greatest=20,
        doc="Penalty for a late block, as a multiple of its value to the customer. A broken promise must not pay.",
    )  # fmt: skip
    check_rate: Parameter[U32] = Parameter(
        DEFAULT_RULES.check_rate_ppm, unit="ppm", least=100_000, greatest=ALL,
        doc="Chance that an item of a result is checked: 100000, 200000, 333333, 500000 or 1000000. The least "
            "collateral follows from it.",
    )  # fmt: skip
    time_collateral: Parameter[U32] = Parameter(
        300_000, unit="ppm", least=100_000, greatest=ALL,
        doc="Part of the greatest price: the least collateral of a bid for time. A leaver pays from it.",
    )  # fmt: skip
    interval_blocks_max: Parameter[BlockNumber] = Parameter(
        150, unit="blocks", least=1, greatest=WINDOW_BLOCKS_MAX,
        doc="The longest pay interval of bought time, about five minutes. It bounds the loss of each side.",
    )  # fmt: skip
    commit_blocks: Parameter[BlockNumber] = Parameter(
        12, unit="blocks", least=AUCTION_BLOCKS_LEAST, greatest=WINDOW_BLOCKS_MAX,
        doc="Window for bids. With a third of the stake, an attacker keeps a bid out of 12 blocks with a chance of "
            "2 in a million.",
    )  # fmt: skip
    reveal_blocks: Parameter[BlockNumber] = Parameter(
        12, unit="blocks", least=AUCTION_BLOCKS_LEAST, greatest=WINDOW_BLOCKS_MAX,
        doc="Window to reveal bids. A reveal kept out of the blocks costs an honest bidder its bond.",
    )  # fmt: skip
    start_blocks: Parameter[BlockNumber] = Parameter(
        10, unit="blocks", least=2, greatest=WINDOW_BLOCKS_MAX,
        doc="Window from the award to the start, for fetching the input.",
    )  # fmt: skip
    grace_blocks: Parameter[BlockNumber] = Parameter(
        10, unit="blocks", least=2, greatest=WINDOW_BLOCKS_MAX,
        doc="Grace for a milestone, beside twice its share of the promised blocks. A slow network must not end a "
            "task.",
    )  # fmt: skip
    ask_blocks: Parameter[BlockNumber] = Parameter(
        8, unit="blocks", least=2, greatest=WINDOW_BLOCKS_MAX,
        doc="Window for a released standby to accept the rest of the work. After it, the rest is auctioned.",
    )  # fmt: skip
    task_keep: Parameter[BlockNumber] = Parameter(
        7_200, unit="blocks", least=1, greatest=1_000_000,
        doc="Blocks that the record of an ended task is kept, so that any reader can compute its award again.",
    )  # fmt: skip
    step_fee: Parameter[Balance] = Parameter(
        30_000, unit="grains", least=1, greatest=10_000_000,
        doc="Prepaid by a task for each time that a block may process it.",
    )  # fmt: skip
    task_deposit: Parameter[Balance] = Parameter(
        GRAINS_PER_OGPU, unit="grains", least=GRAINS_PER_OGPU // 100, greatest=100 * GRAINS_PER_OGPU,
        doc="Deposit for a task's record, until the record is dropped. Records are large, so few may be open.",
    )  # fmt: skip

    def rules(self, order: TaskOrder, *, is_checked: bool = True) -> TaskRules:
        """Return the rules of a task that is submitted now."""
        return task_rules(
            lambda name: int(getattr(self, name)),
            check_fee_min=self.result_claims.check_fee_min,
            checked_by=order.checked_by,
            check_ppm=order.check_ppm,
            is_checked=is_checked,
        )

    def windows(self) -> TaskWindows:
        """Return the lengths of the parts of a task's life."""
        return TaskWindows(
            commit=self.commit_blocks,
            reveal=self.reveal_blocks,
            start=self.start_blocks,
            grace=self.grace_blocks,
            ask=self.ask_blocks,
            keep=self.task_keep,
        )
