"""The parameters of TrainingMarket, each with its bounds and its reason.

Invariant: a task follows the `rules` and `windows` of its submission. No later change of these parameters affects it.
"""

from collections.abc import Callable
from dataclasses import fields

from gpu_tasks.market.courts.money import chance_found
from gpu_tasks.market.training.orders import CheckedBy, TaskOrder
from gpu_tasks.market.training.rules import DEFAULT_RULES, TaskRules
from gpu_tasks.market.training.showing import PARTS_DRAWN, PARTS_MAX
from gpu_tasks.market.training.tasks import TaskWindows
from runtime.encoding.codec import U32
from runtime.encoding.types import GRAINS_PER_OGPU, Balance, BlockNumber
from runtime.frame.pallet import Pallet, Parameter

ALL = 1_000_000
"""The whole, in millionths."""
_RECKONED = ("found_ppm", "collateral_ppm")
"""Rules that are computed, without a parameter of their name."""
WINDOW_BLOCKS_MAX = 50_000
"""The longest window of a task, in blocks: about a day at two seconds a block."""
AUCTION_BLOCKS_LEAST = 4
"""The least blocks of an auction's windows. An author with a third of the stake fills four blocks in a row once in 81
times."""


def task_rules(read: Callable[[str], int], *, has_trace: bool, checked_by: CheckedBy = CheckedBy.EXECUTED) -> TaskRules:
    """Return the rules of a task from `number(name)`. Each rule is the parameter of its name, with four exceptions.

    * With a trace, judges compute a part: they look more often, for a smaller fee.
    * The chance to find a lie follows from the audit rate and from that part, because a liar needs only one wrong
      segment.
    * Bought time cannot be computed again: there is no audit and no lie, and judges at most fetch an input.
    * The majority of replicas decides, so there is no audit of them either. The least collateral is one greatest price:
      alone a false result is always outvoted, so its provider loses the collateral and its pay. No collateral deters a
      coalition with most places, because it reads the draw before it lies.
    """
    named_numbers = {field.name: read(field.name) for field in fields(TaskRules) if field.name not in _RECKONED}
    if checked_by is not CheckedBy.EXECUTED:
        named_numbers["judge_fee_ppm"], named_numbers["audit_rate_ppm"] = read("input_fee_ppm"), 0
        collateral_ppm = ALL if checked_by is CheckedBy.REPLICATED else read("time_collateral")
        return TaskRules(**named_numbers, found_ppm=ALL, collateral_ppm=collateral_ppm)
    if has_trace:
        named_numbers["judge_fee_ppm"], named_numbers["audit_rate_ppm"] = (
            read("trace_fee_ppm"),
            read("trace_audit_ppm"),
        )
    # A result is audited before it is paid, so the chance counts for the whole price.
    found_ppm, whole_ppm = chance_found(named_numbers["audit_rate_ppm"])
    if has_trace:
        # The judges of an audit see only the drawn parts, and one wrong segment may lie outside them.
        found_ppm, whole_ppm = found_ppm * PARTS_DRAWN, whole_ppm * PARTS_MAX
    return TaskRules(**named_numbers, found_ppm=found_ppm * ALL // whole_ppm, collateral_ppm=ALL)


class TrainingNumbers(Pallet):
    """Shares and windows of tasks, and the costs of a task beyond its price."""

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
    dispute_bond: Parameter[U32] = Parameter(
        DEFAULT_RULES.dispute_bond, unit="ppm", least=1, greatest=ALL,
        doc="Part of the price, locked by a customer's dispute beside the judges' fees. A false dispute must cost.",
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
    judge_fee_ppm: Parameter[U32] = Parameter(
        DEFAULT_RULES.judge_fee_ppm, unit="ppm", least=10_000, greatest=ALL,
        doc="Fee of a judge without a trace: part of the price in an audit, else of the greatest price.",
    )  # fmt: skip
    trace_fee_ppm: Parameter[U32] = Parameter(
        100_000, unit="ppm", least=10_000, greatest=ALL,
        doc="Fee of a judge with a trace, as above. The judge computes a fifth of the task.",
    )  # fmt: skip
    input_fee_ppm: Parameter[U32] = Parameter(
        10_000, unit="ppm", least=1_000, greatest=ALL,
        doc="Fee of a judge for a task paid by time, as above. The judge fetches at most an input.",
    )  # fmt: skip
    time_collateral: Parameter[U32] = Parameter(
        250_000, unit="ppm", least=100_000, greatest=ALL,
        doc="Part of the greatest price: with five judges' fees, the least collateral of a bid for time. A leaver "
            "pays from it.",
    )  # fmt: skip
    interval_blocks_max: Parameter[BlockNumber] = Parameter(
        150, unit="blocks", least=1, greatest=WINDOW_BLOCKS_MAX,
        doc="The longest pay interval of bought time, about five minutes. It bounds the loss of each side.",
    )  # fmt: skip
    judge_fee_min: Parameter[Balance] = Parameter(
        DEFAULT_RULES.judge_fee_min, unit="grains", least=1, greatest=GRAINS_PER_OGPU,
        doc="The least fee of a judge of a task.",
    )  # fmt: skip
    audit_rate_ppm: Parameter[U32] = Parameter(
        DEFAULT_RULES.audit_rate_ppm, unit="ppm", least=1_000, greatest=ALL,
        doc="Chance of an audit of a result without a trace. The least collateral follows from it.",
    )  # fmt: skip
    trace_audit_ppm: Parameter[U32] = Parameter(
        250_000, unit="ppm", least=5_000, greatest=ALL,
        doc="Chance of an audit of a result with a trace. Higher, because an audit checks one segment of five.",
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
    dispute_blocks: Parameter[BlockNumber] = Parameter(
        20, unit="blocks", least=4, greatest=WINDOW_BLOCKS_MAX,
        doc="Window to examine a result and dispute it.",
    )  # fmt: skip
    accept_blocks: Parameter[BlockNumber] = Parameter(
        30, unit="blocks", least=4, greatest=WINDOW_BLOCKS_MAX,
        doc="Blocks after which a silent customer has accepted. A provider must not wait for ever.",
    )  # fmt: skip
    show_blocks: Parameter[BlockNumber] = Parameter(
        12, unit="blocks", least=4, greatest=WINDOW_BLOCKS_MAX,
        doc="Window to show the drawn states. A provider that misses it counts as a liar.",
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

    def rules(self, order: TaskOrder) -> TaskRules:
        """Return the rules of a task that is submitted now."""
        return task_rules(
            lambda name: int(getattr(self, name)),
            has_trace=bool(order.segments),
            checked_by=order.checked_by,
        )

    def windows(self) -> TaskWindows:
        """Return the lengths of the parts of a task's life."""
        return TaskWindows(
            commit=self.commit_blocks,
            reveal=self.reveal_blocks,
            start=self.start_blocks,
            grace=self.grace_blocks,
            ask=self.ask_blocks,
            dispute=self.dispute_blocks,
            accept=self.accept_blocks,
            show=self.show_blocks,
            keep=self.task_keep,
        )
