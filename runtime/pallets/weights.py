"""What calls and hooks of the chain's own pallets weigh.

Generated: `make weights WRITE=1` measures and writes it, and nobody else does.
Nanoseconds of reference time, of which verifying a signature takes 40,000 (`runtime.frame.weights.SIGNATURE`).
"""

from runtime.frame.measured import MeasuredWeights

WEIGHTS = MeasuredWeights(
    "7e46a585cef9c0d91698662e52ab929f",
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
        "TrustLock.cancel_slashes": 158_160,
        "TrustLock.on_initialize": 35_150,
        "TrustLock.on_initialize strike": 1_602_698,
        "TrustLock.report_offence": 1_580_781,
        "TrustStake.announce_commission": 78_036,
        "TrustStake.bond": 208_066,
        "TrustStake.bond_extra": 219_388,
        "TrustStake.chill": 323_817,
        "TrustStake.claim": 2_038_812,
        "TrustStake.collect": 2_169_223,
        "TrustStake.compound": 1_947_526,
        "TrustStake.delegate": 558_816,
        "TrustStake.lift_tombstone": 121_974,
        "TrustStake.on_initialize": 173_329,
        "TrustStake.on_initialize candidate": 19_387,
        "TrustStake.on_initialize elected": 1_100_520,
        "TrustStake.on_initialize era": 1_653_844,
        "TrustStake.redelegate": 2_156_704,
        "TrustStake.set_profile": 208_861,
        "TrustStake.unbond": 549_897,
        "TrustStake.undelegate": 2_060_757,
        "TrustStake.validate": 613_510,
        "TrustStake.withdraw_unbonded": 319_718,
        "TrustStake.withdraw_unbonded validator": 201_517,
        "Utility.batch": 4_485,
        "Utility.batch call": 8_839,
        "Utility.batch_all": 3_904,
        "Utility.batch_all call": 8_839,
        "Utility.force_batch": 4_167,
        "Utility.force_batch call": 8_839,
    },
)
