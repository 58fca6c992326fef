"""The relations of the chain: every inequality between parameters and constants, in one place.

They are checked when block 0 is made, and whenever Root changes a parameter. `ogpu-node genesis check` shows each with
its numbers. Invariant: every name here is a number that a pallet declares, or a key of `genesis.parameters.outside`.
"""

from gpu_tasks.market.courts.money import SEAT_FEES
from gpu_tasks.market.training.training_market import SLOT_WEIGHT, STEP_WEIGHT
from gpu_tasks.market.weights import WEIGHTS
from runtime.frame.relations import Relation

ALL_PPM = 1_000_000
FIRST_COMMITTEE = 3
TWICE_PRICE_FEES = 4
"""The most fees that twice the price can equal, since a fee is at least half of the price."""
RACER_DUTIES = 2
RACER_BYTES = 790
"""The bytes of a racer's commitment and its reveal as mortal extrinsics, at their longest."""
RACER_TIME = (WEIGHTS["InferenceMarket.commit_result"] + WEIGHTS["Attestations.reveal"]).ref_time
"""Their weight, in picoseconds."""
LOOK_TIME = max(STEP_WEIGHT.ref_time, SLOT_WEIGHT.ref_time)
"""The greater weight of a look at a task and of one of its slots: the same fee prepays both."""

RELATIONS = (
    Relation(
        "unbonding outlasts evidence",
        ("TrustStake.unbonding_epochs",),
        ("TrustStake.evidence_epochs", "TrustStake.era_epochs", "TrustStake.era_epochs", 1),
        "the set of the next era may be elected when stake leaves: it answers for that era, and evidence must find it",
    ),
    Relation(
        "evidence outlasts trust",
        ("TrustStake.evidence_epochs",),
        ("Consensus.trusting_epochs",),
        "who is trusted to certify a block can be punished for it",
    ),
    Relation(
        "unbonding outlasts trust",
        ("TrustStake.unbonding_epochs",),
        ("Consensus.trusting_epochs", 1),
        "whose stake is out can be trusted by nobody who was away for so long",
    ),
    Relation(
        "an ended era is known while its offences count",
        (("TrustStake.history_eras", "TrustStake.era_epochs"),),
        ("TrustStake.evidence_epochs", "TrustStake.era_epochs"),
        "how much was behind an offender is what its slash goes by",
    ),
    Relation(
        "the emission is what is divided",
        (ALL_PPM,),
        ("TrustStake.emission_validators", "TrustStake.emission_providers"),
        "no more leaves the reserve than an era emits",
    ),
    Relation(
        "a slash is what is divided",
        (ALL_PPM,),
        ("TrustStake.slash_treasury", "TrustStake.slash_reporter"),
        "no more is paid than was taken",
    ),
    Relation(
        "a commission can change",
        (ALL_PPM,),
        ("TrustStake.commission_min", "TrustStake.commission_step"),
        "where the least is nearly all, a step must not lead beyond it",
    ),
    Relation(
        "a validator has more at stake than a delegator",
        ("TrustStake.validator_bond_min",),
        ("TrustStake.delegation_min",),
        "who acts must lose at least what the least of those who trust him lose",
    ),
    Relation(
        "a stake keeps an account alive",
        ("TrustStake.delegation_min",),
        ("Balances.existential_deposit",),
        "what comes back after the unbonding time must not be dust",
    ),
    Relation(
        "a larger device has no smaller bond",
        ("Devices.consumer_bond_min",),
        ("Devices.cpu_bond_min",),
        "the bond grows with what the device may claim",
    ),
    Relation(
        "the largest device has no smaller bond",
        ("Devices.datacenter_bond_min",),
        ("Devices.consumer_bond_min",),
        "the bond grows with what the device may claim",
    ),
    Relation(
        "a larger device proves no less",
        ("Capacity.consumer_rate_min",),
        ("Capacity.cpu_rate_min",),
        "what a device may claim grows with its class",
    ),
    Relation(
        "the largest device proves no less",
        ("Capacity.datacenter_rate_min",),
        ("Capacity.consumer_rate_min",),
        "what a device may claim grows with its class",
    ),
    Relation(
        "the settlement fee keeps to its greatest",
        ("InferenceMarket.settlement_fee_max",),
        ("InferenceMarket.settlement_fee",),
        "providers and customers were promised that it never rises above it",
    ),
    Relation(
        "a post prepays its duty calls",
        # Both sides times the weight price, which turns fees into the time that they buy.
        ((RACER_DUTIES, "InferenceMarket.duty_fee", "TransactionPayment.weight_price"),),
        (
            (RACER_DUTIES, "TransactionPayment.base_fee", "TransactionPayment.weight_price"),
            (RACER_BYTES, "TransactionPayment.byte_fee", "TransactionPayment.weight_price"),
            RACER_TIME,
        ),
        "duty calls are free for who does the duty, so somebody else must have paid what they cost at the least fee",
    ),
    Relation(
        "the windows of a round are open",
        (("InferenceMarket.race_close", "InferenceMarket.race_reveal"),),
        (1,),
        "who must act needs a block to act in",
    ),
    Relation(
        "a seat covers what a court may take",
        (SEAT_FEES,),
        ("Courts.court_seats", FIRST_COMMITTEE, TWICE_PRICE_FEES),
        "a judge whom a court finds wrong pays the committee, the court, and the appellant twice the price",
    ),
    Relation(
        "the settlement fee of tasks keeps to its greatest",
        ("InferenceMarket.settlement_fee_max",),
        ("TrainingMarket.settlement_fee",),
        "providers and customers were promised that it never rises above it",
    ),
    Relation(
        "a task prepays the looks at it",
        (("TrainingMarket.step_fee", "TransactionPayment.weight_price"),),
        (LOOK_TIME,),
        "blocks look at it without anybody's transaction, so somebody must have paid what that costs at the least fee",
    ),
    Relation(
        "silence accepts no earlier than a dispute ends",
        ("TrainingMarket.accept_blocks",),
        ("TrainingMarket.dispute_blocks",),
        "who may dispute for so long must not be taken at its silence before",
    ),
    Relation(
        "not to start costs no less than not to open a bid",
        ("TrainingMarket.no_start_penalty",),
        ("TrainingMarket.bid_bond",),
        "who bids twice and chooses later would open both, and not start one",
    ),
    Relation(
        "to give up costs no less than not to start",
        ("TrainingMarket.failure_penalty",),
        ("TrainingMarket.no_start_penalty",),
        "who cannot do the work shall say so at once, by not starting",
    ),
    Relation(
        "a runner-up loses more than it is paid for being ready",
        ("TrainingMarket.no_start_penalty",),
        ("TrainingMarket.standby_share",),
        "who stands by and never meant to take over must not gain by it",
    ),
    Relation(
        "lies count for as long as stake takes to leave",
        ("Courts.conviction_blocks",),
        (("TrustStake.unbonding_epochs", "Consensus.epoch_blocks"),),
        "whose third lie it is shall still have something to lose",
    ),
)
