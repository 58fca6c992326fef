"""The relations of the chain: every inequality between parameters and constants, in one place.

They are checked when block 0 is made, and whenever Root changes a parameter. `ogpu-node genesis check` shows each with
its numbers. Invariant: every name here is a number that a pallet declares, or a key of `genesis.parameters.outside`.
"""

from gpu_tasks.market.training.training_market import SLOT_WEIGHT, STEP_WEIGHT
from gpu_tasks.market.weights import WEIGHTS
from runtime.frame.relations import Relation

ALL_PPM = 1_000_000
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
        "when stake leaves, the next era's set may be elected already. The stake answers for that era, and must "
        "still be locked for evidence",
    ),
    Relation(
        "evidence outlasts trust",
        ("TrustStake.evidence_epochs",),
        ("Consensus.trusting_epochs",),
        "a validator whose certificates are trusted can still be punished for them",
    ),
    Relation(
        "unbonding outlasts trust",
        ("TrustStake.unbonding_epochs",),
        ("Consensus.trusting_epochs", 1),
        "a returning node must not trust validators whose stake is gone",
    ),
    Relation(
        "an ended era is stored while evidence about it is accepted",
        (("TrustStake.history_eras", "TrustStake.era_epochs"),),
        ("TrustStake.evidence_epochs", "TrustStake.era_epochs"),
        "a slash depends on the stake behind the offender in that era",
    ),
    Relation(
        "the shares of the emission add up to at most all of it",
        (ALL_PPM,),
        ("TrustStake.emission_validators", "TrustStake.emission_providers"),
        "an era pays at most its emission",
    ),
    Relation(
        "the shares of a slash add up to at most all of it",
        (ALL_PPM,),
        ("TrustStake.slash_treasury", "TrustStake.slash_reporter"),
        "payouts come from the slashed stake alone",
    ),
    Relation(
        "a commission can change",
        (ALL_PPM,),
        ("TrustStake.commission_min", "TrustStake.commission_step"),
        "one step up from the least commission must not exceed all of a reward",
    ),
    Relation(
        "a validator has more at stake than a delegator",
        ("TrustStake.validator_bond_min",),
        ("TrustStake.delegation_min",),
        "a validator must risk at least as much as its smallest delegator",
    ),
    Relation(
        "a stake keeps an account alive",
        ("TrustStake.delegation_min",),
        ("Balances.existential_deposit",),
        "returned stake must not be dust",
    ),
    Relation(
        "a consumer device bonds at least as much as a CPU",
        ("Devices.consumer_bond_min",),
        ("Devices.cpu_bond_min",),
        "larger devices may claim more work",
    ),
    Relation(
        "a datacenter device bonds at least as much as a consumer device",
        ("Devices.datacenter_bond_min",),
        ("Devices.consumer_bond_min",),
        "larger devices may claim more work",
    ),
    Relation(
        "a consumer device proves at least a CPU's rate",
        ("Capacity.consumer_rate_min",),
        ("Capacity.cpu_rate_min",),
        "larger devices may claim more work",
    ),
    Relation(
        "a datacenter device proves at least a consumer device's rate",
        ("Capacity.datacenter_rate_min",),
        ("Capacity.consumer_rate_min",),
        "larger devices may claim more work",
    ),
    Relation(
        "the settlement fee stays within its maximum",
        ("InferenceMarket.settlement_fee_max",),
        ("InferenceMarket.settlement_fee",),
        "providers and customers rely on this maximum",
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
        "racers pay no fees for duty calls, so the post must prepay at least their cost",
    ),
    Relation(
        "both windows of a race have at least one block",
        (("InferenceMarket.race_close", "InferenceMarket.race_reveal"),),
        (1,),
        "a racer needs a block in which to act",
    ),
    Relation(
        "the settlement fee of tasks stays within the maximum",
        ("InferenceMarket.settlement_fee_max",),
        ("TrainingMarket.settlement_fee",),
        "providers and customers rely on this maximum",
    ),
    Relation(
        "a task prepays its steps",
        (("TrainingMarket.step_fee", "TransactionPayment.weight_price"),),
        (LOOK_TIME,),
        "no transaction pays for a task's steps in block hooks, so the post must prepay at least their cost",
    ),
    Relation(
        "a missed start costs at least as much as an unrevealed bid",
        ("TrainingMarket.no_start_penalty",),
        ("TrainingMarket.bid_bond",),
        "otherwise a provider would bid twice, reveal both, and drop one",
    ),
    Relation(
        "giving up costs at least as much as a missed start",
        ("TrainingMarket.failure_penalty",),
        ("TrainingMarket.no_start_penalty",),
        "an unable provider should fail early, at the start",
    ),
    Relation(
        "a standby's penalty is at least its pay",
        ("TrainingMarket.no_start_penalty",),
        ("TrainingMarket.standby_share",),
        "a standby that never takes over must not gain",
    ),
)
