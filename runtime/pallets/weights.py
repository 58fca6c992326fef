"""What calls and hooks of the chain's own pallets weigh.

Generated: `make weights WRITE=1` measures and writes it, and nobody else does.
Nanoseconds of reference time, of which verifying a signature takes 40,000 (`runtime.frame.weights.SIGNATURE`).
"""

from runtime.frame.measured import MeasuredWeights

WEIGHTS = MeasuredWeights(
    "f697237ce3537d4950c880ad6611c01b",
    {
        "Balances.burn": 38_817,
        "Balances.transfer_all": 44_034,
        "Balances.transfer_allow_death": 42_447,
        "Balances.transfer_keep_alive": 42_931,
        "Beacon.on_initialize": 227_938,
        "ChainParameters.set_parameter": 157_424,
        "Sudo.set_key": 18_411,
        "Sudo.sudo": 19_245,
        "Sudo.sudo_as": 20_505,
        "System.remark": 4_328,
        "System.remark kibibyte": 120,
        "System.remark_with_event": 8_414,
        "System.remark_with_event kibibyte": 1_382,
        "Timestamp.on_finalize": 20_066,
        "Timestamp.set": 31_318,
        "TransactionPayment.on_finalize": 158_690,
        "TrustLock.on_initialize": 69_061,
        "TrustLock.on_initialize strike": 46_656_772,
        "TrustLock.report_offence": 51_605_938,
        "TrustStake.bond": 174_734,
        "TrustStake.bond_extra": 194_515,
        "TrustStake.chill": 259_677,
        "TrustStake.delegate": 214_502,
        "TrustStake.on_initialize": 259_562,
        "TrustStake.on_initialize backing": 6_661,
        "TrustStake.on_initialize candidate": 22_160,
        "TrustStake.on_initialize era": 447_612,
        "TrustStake.payout_stakers": 7_067_083,
        "TrustStake.unbond": 306_378,
        "TrustStake.undelegate": 159_416,
        "TrustStake.validate": 572_415,
        "TrustStake.withdraw_unbonded": 159_480,
        "TrustStake.withdraw_unbonded validator": 73_026,
        "Utility.batch": 9_430,
        "Utility.batch call": 120,
        "Utility.batch_all": 4_323,
        "Utility.batch_all call": 120,
        "Utility.force_batch": 4_462,
        "Utility.force_batch call": 120,
    },
)
