"""What calls and hooks of the chain's own pallets weigh.

Generated: `make weights WRITE=1` measures and writes it, and nobody else does.
Nanoseconds of reference time, of which verifying a signature takes 40,000 (`runtime.frame.weights.SIGNATURE`).
"""

from runtime.frame.measured import MeasuredWeights

WEIGHTS = MeasuredWeights(
    "0fd56d23734bf516d36c1a0270586cad",
    {
        "Balances.burn": 35_698,
        "Balances.transfer_all": 43_641,
        "Balances.transfer_allow_death": 36_362,
        "Balances.transfer_keep_alive": 36_116,
        "Beacon.on_initialize": 207_668,
        "ChainParameters.set_parameter": 232_126,
        "Sudo.set_key": 13_387,
        "Sudo.sudo": 13_681,
        "Sudo.sudo_as": 14_082,
        "System.remark": 3_620,
        "System.remark kibibyte": 120,
        "System.remark_with_event": 5_932,
        "System.remark_with_event kibibyte": 1_377,
        "Timestamp.on_finalize": 13_476,
        "Timestamp.set": 28_276,
        "TransactionPayment.on_finalize": 132_298,
        "TrustLock.cancel_slashes": 130_567,
        "TrustLock.on_initialize": 116_512,
        "TrustLock.on_initialize strike": 2_048_492,
        "TrustLock.report_offence": 1_621_171,
        "TrustStake.announce_commission": 74_750,
        "TrustStake.bond": 161_996,
        "TrustStake.bond_extra": 193_765,
        "TrustStake.chill": 311_461,
        "TrustStake.claim": 1_174_698,
        "TrustStake.collect": 1_449_210,
        "TrustStake.compound": 1_647_254,
        "TrustStake.delegate": 897_340,
        "TrustStake.lift_tombstone": 108_098,
        "TrustStake.on_initialize": 235_640,
        "TrustStake.on_initialize candidate": 19_387,
        "TrustStake.on_initialize elected": 1_100_520,
        "TrustStake.on_initialize era": 1_653_844,
        "TrustStake.redelegate": 1_586_149,
        "TrustStake.set_profile": 156_998,
        "TrustStake.unbond": 690_120,
        "TrustStake.undelegate": 1_589_076,
        "TrustStake.validate": 573_444,
        "TrustStake.withdraw_unbonded": 300_807,
        "TrustStake.withdraw_unbonded validator": 178_196,
        "Utility.batch": 5_094,
        "Utility.batch call": 669,
        "Utility.batch_all": 5_725,
        "Utility.batch_all call": 669,
        "Utility.force_batch": 4_398,
        "Utility.force_batch call": 669,
    },
)
