"""What calls and hooks of the chain's own pallets weigh.

Generated: `make weights WRITE=1` measures and writes it, and nobody else does.
Nanoseconds of reference time, of which verifying a signature takes 40,000 (`runtime.frame.weights.SIGNATURE`).
"""

from runtime.frame.measured import MeasuredWeights

WEIGHTS = MeasuredWeights(
    "0ffd96f949efbffbbce712a53fb54fa4",
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
        "TrustLock.cancel_slashes": 147_931,
        "TrustLock.on_initialize": 69_385,
        "TrustLock.on_initialize strike": 2_320_375,
        "TrustLock.report_offence": 1_788_256,
        "TrustStake.announce_commission": 80_192,
        "TrustStake.bond": 186_895,
        "TrustStake.bond_extra": 204_000,
        "TrustStake.chill": 354_318,
        "TrustStake.claim": 761_920,
        "TrustStake.collect": 1_816_252,
        "TrustStake.compound": 1_041_784,
        "TrustStake.delegate": 1_064_474,
        "TrustStake.lift_tombstone": 130_939,
        "TrustStake.on_initialize": 184_917,
        "TrustStake.on_initialize candidate": 19_387,
        "TrustStake.on_initialize elected": 1_100_520,
        "TrustStake.on_initialize era": 1_653_844,
        "TrustStake.redelegate": 1_194_074,
        "TrustStake.set_profile": 182_353,
        "TrustStake.unbond": 520_149,
        "TrustStake.undelegate": 1_313_068,
        "TrustStake.validate": 609_194,
        "TrustStake.withdraw_unbonded": 227_888,
        "TrustStake.withdraw_unbonded validator": 215_827,
        "Utility.batch": 5_094,
        "Utility.batch call": 669,
        "Utility.batch_all": 5_725,
        "Utility.batch_all call": 669,
        "Utility.force_batch": 4_398,
        "Utility.force_batch call": 669,
    },
)
