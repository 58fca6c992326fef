"""What calls and hooks of the chain's own pallets weigh.

Generated: `make weights WRITE=1` measures and writes it, and nobody else does.
Nanoseconds of reference time, of which verifying a signature takes 40,000 (`runtime.frame.weights.SIGNATURE`).
"""

from runtime.frame.measured import MeasuredWeights

WEIGHTS = MeasuredWeights(
    "29f6bee46276abe9e36e8080c671b588",
    {
        "Balances.burn": 35_812,
        "Balances.transfer_all": 43_824,
        "Balances.transfer_allow_death": 34_322,
        "Balances.transfer_keep_alive": 27_591,
        "Beacon.on_initialize": 154_414,
        "ChainParameters.set_parameter": 205_748,
        "Sudo.set_key": 12_352,
        "Sudo.sudo": 13_767,
        "Sudo.sudo_as": 13_987,
        "System.remark": 3_510,
        "System.remark kibibyte": 120,
        "System.remark_with_event": 6_156,
        "System.remark_with_event kibibyte": 1_416,
        "Timestamp.on_finalize": 8_344,
        "Timestamp.set": 28_759,
        "TransactionPayment.on_finalize": 105_094,
        "TrustLock.on_initialize": 35_150,
        "TrustLock.on_initialize strike": 46_655_950,
        "TrustLock.report_offence": 52_714_059,
        "TrustStake.bond": 179_878,
        "TrustStake.bond_extra": 212_366,
        "TrustStake.chill": 234_762,
        "TrustStake.delegate": 199_879,
        "TrustStake.on_initialize": 173_329,
        "TrustStake.on_initialize backing": 7_966,
        "TrustStake.on_initialize candidate": 19_387,
        "TrustStake.on_initialize era": 1_653_844,
        "TrustStake.payout_stakers": 7_851_688,
        "TrustStake.unbond": 317_409,
        "TrustStake.undelegate": 156_414,
        "TrustStake.validate": 501_992,
        "TrustStake.withdraw_unbonded": 100_638,
        "TrustStake.withdraw_unbonded validator": 70_107,
        "Utility.batch": 4_485,
        "Utility.batch call": 8_839,
        "Utility.batch_all": 3_904,
        "Utility.batch_all call": 8_839,
        "Utility.force_batch": 4_167,
        "Utility.force_batch call": 8_839,
    },
)
