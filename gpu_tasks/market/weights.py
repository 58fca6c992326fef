"""What calls and hooks of the market's pallets weigh.

Generated: `make weights WRITE=1` measures and writes it, and nobody else does.
Nanoseconds of reference time, of which verifying a signature takes 40,000 (`runtime.frame.weights.SIGNATURE`).
"""

from runtime.frame.measured import MeasuredWeights

WEIGHTS = MeasuredWeights(
    "0be8eacdcfde0132474a91afb1ac012a",
    {
        "Attestations.attach": 191_204,
        "Attestations.attach attestation": 147_067,
        "Attestations.attach racer": 153_949,
        "Attestations.attach settled": 254_302,
        "Attestations.reveal": 2_213_170,
        "Devices.bond_device_extra": 157_186,
        "Devices.pause": 54_421,
        "Devices.register_device": 176_478,
        "Devices.register_provider": 64_036,
        "Devices.resume": 107_264,
        "Devices.unregister_device": 152_912,
        "Devices.unregister_provider": 38_621,
        "InferenceMarket.cancel": 499_973,
        "InferenceMarket.close_service": 177_546,
        "InferenceMarket.commit_result": 361_425,
        "InferenceMarket.commit_verdict": 265_558,
        "InferenceMarket.create_service": 141_373,
        "InferenceMarket.decline": 1_798_462,
        "InferenceMarket.offer": 319_132,
        "InferenceMarket.on_initialize": 644_694,
        "InferenceMarket.on_initialize draw": 343_619,
        "InferenceMarket.on_initialize end_offer": 121_225,
        "InferenceMarket.on_initialize expiry": 160_179,
        "InferenceMarket.on_initialize look": 167,
        "InferenceMarket.on_initialize order": 2_596,
        "InferenceMarket.on_initialize racer": 92_705,
        "InferenceMarket.on_initialize scan": 15_261,
        "InferenceMarket.on_initialize step": 1_033_457,
        "InferenceMarket.on_initialize stir": 80_310,
        "InferenceMarket.on_initialize turn": 141_149,
        "InferenceMarket.post": 364_413,
        "InferenceMarket.post unit": 155_182,
        "InferenceMarket.reveal_verdict": 3_933_869,
        "InferenceMarket.withdraw_offer": 258_938,
    },
)
