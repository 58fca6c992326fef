"""What calls and hooks of the chain's own pallets weigh.

Generated: `make weights WRITE=1` measures and writes it, and nobody else does.
Nanoseconds of reference time, of which verifying a signature takes 40,000 (`runtime.frame.weights.SIGNATURE`).
"""

from runtime.frame.measured import MeasuredWeights

WEIGHTS = MeasuredWeights(
    "0b2c54af14b0b9d495128583889c5a3f",
    {
        "Balances.burn": 35_376,
        "Balances.transfer_all": 42_267,
        "Balances.transfer_allow_death": 37_443,
        "Balances.transfer_keep_alive": 34_044,
        "Beacon.on_initialize": 186_720,
        "ChainParameters.set_parameter": 135_441,
        "Sudo.set_key": 13_300,
        "Sudo.sudo": 13_249,
        "Sudo.sudo_as": 15_103,
        "System.remark": 3_396,
        "System.remark kibibyte": 120,
        "System.remark_with_event": 6_037,
        "System.remark_with_event kibibyte": 1_396,
        "Timestamp.on_finalize": 12_015,
        "Timestamp.set": 28_024,
        "TransactionPayment.on_finalize": 117_964,
        "TrustLock.on_initialize": 42_574,
        "TrustLock.on_initialize strike": 48_558_543,
        "TrustLock.report_offence": 57_112_038,
        "TrustStake.bond": 183_921,
        "TrustStake.bond_extra": 208_593,
        "TrustStake.chill": 293_304,
        "TrustStake.delegate": 232_905,
        "TrustStake.on_initialize": 222_116,
        "TrustStake.on_initialize backing": 7_966,
        "TrustStake.on_initialize candidate": 19_387,
        "TrustStake.on_initialize era": 1_653_844,
        "TrustStake.payout_stakers": 8_393_214,
        "TrustStake.unbond": 379_885,
        "TrustStake.undelegate": 188_242,
        "TrustStake.validate": 565_220,
        "TrustStake.withdraw_unbonded": 117_843,
        "TrustStake.withdraw_unbonded validator": 65_385,
        "Utility.batch": 4_459,
        "Utility.batch call": 7_084,
        "Utility.batch_all": 4_564,
        "Utility.batch_all call": 7_084,
        "Utility.force_batch": 5_462,
        "Utility.force_batch call": 7_084,
    },
)
