"""What calls and hooks of the chain's own pallets weigh.

Generated: `make weights WRITE=1` measures and writes it, and nobody else does.
Nanoseconds of reference time, of which verifying a signature takes 40,000 (`runtime.frame.weights.SIGNATURE`).
"""

from runtime.frame.measured import MeasuredWeights

WEIGHTS = MeasuredWeights(
    "004090a9a0b0886c5a4fa320e360eff1",
    {
        "Balances.burn": 34_136,
        "Balances.transfer_all": 36_158,
        "Balances.transfer_allow_death": 35_031,
        "Balances.transfer_keep_alive": 37_287,
        "Beacon.on_initialize": 152_957,
        "ChainParameters.set_parameter": 116_783,
        "Sudo.set_key": 13_306,
        "Sudo.sudo": 12_097,
        "Sudo.sudo_as": 12_912,
        "System.remark": 4_340,
        "System.remark kibibyte": 100,
        "System.remark_with_event": 5_243,
        "System.remark_with_event kibibyte": 1_142,
        "Timestamp.on_finalize": 14_325,
        "Timestamp.set": 25_872,
        "TransactionPayment.on_finalize": 132_700,
        "TrustLock.on_initialize": 50_440,
        "TrustLock.on_initialize strike": 36_372_107,
        "TrustLock.report_offence": 43_665_808,
        "TrustStake.bond": 147_440,
        "TrustStake.bond_extra": 163_650,
        "TrustStake.chill": 209_020,
        "TrustStake.delegate": 166_009,
        "TrustStake.on_initialize": 180_735,
        "TrustStake.on_initialize backing": 3_381,
        "TrustStake.on_initialize candidate": 23_135,
        "TrustStake.on_initialize era": 608_332,
        "TrustStake.payout_stakers": 6_322_731,
        "TrustStake.unbond": 268_177,
        "TrustStake.undelegate": 131_707,
        "TrustStake.validate": 430_283,
        "TrustStake.withdraw_unbonded": 84_184,
        "TrustStake.withdraw_unbonded validator": 53_522,
        "Utility.batch": 6_119,
        "Utility.batch call": 100,
        "Utility.batch_all": 3_670,
        "Utility.batch_all call": 100,
        "Utility.force_batch": 2_870,
        "Utility.force_batch call": 100,
    },
)
