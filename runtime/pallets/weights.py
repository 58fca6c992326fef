"""What calls and hooks of the chain's own pallets weigh.

Generated: `make weights WRITE=1` measures and writes it, and nobody else does.
Nanoseconds of reference time, of which verifying a signature takes 40,000 (`runtime.frame.weights.SIGNATURE`).
"""

from runtime.frame.measured import MeasuredWeights

WEIGHTS = MeasuredWeights(
    "6bf6b5b91de2909add562e4f504017aa",
    {
        "Balances.burn": 35_441,
        "Balances.transfer_all": 39_158,
        "Balances.transfer_allow_death": 40_347,
        "Balances.transfer_keep_alive": 39_402,
        "Beacon.on_initialize": 198_954,
        "ChainParameters.set_parameter": 107_047,
        "Sudo.set_key": 15_495,
        "Sudo.sudo": 15_100,
        "Sudo.sudo_as": 17_375,
        "System.remark": 4_353,
        "System.remark kibibyte": 100,
        "System.remark_with_event": 6_345,
        "System.remark_with_event kibibyte": 1_198,
        "Timestamp.on_finalize": 18_490,
        "Timestamp.set": 26_587,
        "TransactionPayment.on_finalize": 127_574,
        "TrustLock.on_initialize": 74_274,
        "TrustLock.on_initialize strike": 35_444_704,
        "TrustLock.report_offence": 40_253_619,
        "TrustStake.bond": 130_408,
        "TrustStake.bond_extra": 127_747,
        "TrustStake.chill": 198_315,
        "TrustStake.delegate": 154_131,
        "TrustStake.on_initialize": 240_729,
        "TrustStake.on_initialize backing": 7_044,
        "TrustStake.on_initialize candidate": 19_921,
        "TrustStake.on_initialize era": 736_605,
        "TrustStake.payout_stakers": 5_751_799,
        "TrustStake.unbond": 256_145,
        "TrustStake.undelegate": 120_901,
        "TrustStake.validate": 394_130,
        "TrustStake.withdraw_unbonded": 80_570,
        "TrustStake.withdraw_unbonded validator": 50_750,
        "Utility.batch": 6_889,
        "Utility.batch call": 100,
        "Utility.batch_all": 4_042,
        "Utility.batch_all call": 100,
        "Utility.force_batch": 4_101,
        "Utility.force_batch call": 100,
    },
)
