"""What calls and hooks of the chain's own pallets weigh.

Generated: `make weights WRITE=1` measures and writes it, and nobody else does.
Nanoseconds of reference time, of which verifying a signature takes 40,000 (`runtime.frame.weights.SIGNATURE`).
"""

from runtime.frame.measured import MeasuredWeights

WEIGHTS = MeasuredWeights(
    "34bb002ec1e4a349f24fe10dad854458",
    {
        "Balances.burn": 33_528,
        "Balances.transfer_all": 43_052,
        "Balances.transfer_allow_death": 32_892,
        "Balances.transfer_keep_alive": 26_541,
        "Beacon.on_initialize": 152_416,
        "ChainParameters.set_parameter": 130_246,
        "Sudo.set_key": 12_052,
        "Sudo.sudo": 14_766,
        "Sudo.sudo_as": 14_666,
        "System.remark": 3_241,
        "System.remark kibibyte": 120,
        "System.remark_with_event": 4_974,
        "System.remark_with_event kibibyte": 1_396,
        "Timestamp.on_finalize": 10_260,
        "Timestamp.set": 26_326,
        "TransactionPayment.on_finalize": 110_540,
        "TrustLock.on_initialize": 34_860,
        "TrustLock.on_initialize strike": 46_934_523,
        "TrustLock.report_offence": 53_134_897,
        "TrustStake.bond": 178_687,
        "TrustStake.bond_extra": 200_964,
        "TrustStake.chill": 241_939,
        "TrustStake.delegate": 207_795,
        "TrustStake.on_initialize": 172_106,
        "TrustStake.on_initialize backing": 7_966,
        "TrustStake.on_initialize candidate": 19_387,
        "TrustStake.on_initialize era": 1_653_844,
        "TrustStake.payout_stakers": 7_962_241,
        "TrustStake.unbond": 305_568,
        "TrustStake.undelegate": 159_426,
        "TrustStake.validate": 462_069,
        "TrustStake.withdraw_unbonded": 95_071,
        "TrustStake.withdraw_unbonded validator": 71_334,
        "Utility.batch": 3_698,
        "Utility.batch call": 6_744,
        "Utility.batch_all": 4_180,
        "Utility.batch_all call": 6_744,
        "Utility.force_batch": 3_789,
        "Utility.force_batch call": 6_744,
    },
)
