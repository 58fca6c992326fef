"""What calls and hooks of the market's pallets weigh.

Generated: `make weights WRITE=1` measures and writes it, and nobody else does.
Nanoseconds of reference time, of which verifying a signature takes 40,000 (`runtime.frame.weights.SIGNATURE`).
"""

from runtime.frame.measured import MeasuredWeights

WEIGHTS = MeasuredWeights(
    "f21742de9467defc6b00802a74cdf3be",
    {
        "Attestations.attach": 348_998,
        "Attestations.attach attestation": 229_582,
        "Attestations.attach racer": 24_678,
        "Attestations.attach settled": 321_096,
        "Attestations.reveal": 1_485_364,
        "Courts.appeal": 5_929_846,
        "Courts.commit_opinion": 247_063,
        "Courts.on_initialize": 350_234,
        "Courts.open_opinion": 268_642,
        "Devices.bond_device_extra": 226_424,
        "Devices.pause": 70_222,
        "Devices.register_device": 335_322,
        "Devices.register_provider": 80_806,
        "Devices.resume": 134_815,
        "Devices.unregister_device": 218_190,
        "Devices.unregister_provider": 55_246,
        "InferenceMarket.cancel": 735_981,
        "InferenceMarket.close_service": 232_304,
        "InferenceMarket.commit_result": 469_170,
        "InferenceMarket.create_service": 191_085,
        "InferenceMarket.decline": 489_645,
        "InferenceMarket.offer": 401_334,
        "InferenceMarket.on_initialize": 687_068,
        "InferenceMarket.on_initialize draw": 412_039,
        "InferenceMarket.on_initialize end_offer": 181_434,
        "InferenceMarket.on_initialize expiry": 147_985,
        "InferenceMarket.on_initialize look": 507,
        "InferenceMarket.on_initialize order": 3_853,
        "InferenceMarket.on_initialize racer": 130_645,
        "InferenceMarket.on_initialize scan": 24_117,
        "InferenceMarket.on_initialize step": 398_896,
        "InferenceMarket.on_initialize stir": 135_272,
        "InferenceMarket.on_initialize turn": 146_452,
        "InferenceMarket.post": 650_332,
        "InferenceMarket.post unit": 181_074,
        "InferenceMarket.withdraw_offer": 402_802,
    },
)
