"""What calls and hooks of the market's pallets weigh.

Generated: `make weights WRITE=1` measures and writes it, and nobody else does.
Nanoseconds of reference time, of which verifying a signature takes 40,000 (`runtime.frame.weights.SIGNATURE`).
"""

from runtime.frame.measured import MeasuredWeights

WEIGHTS = MeasuredWeights(
    "247855ec665f85c56334be30278fe61c",
    {
        "Attestations.attach": 325_940,
        "Attestations.attach attestation": 212_520,
        "Attestations.attach racer": 31_328,
        "Attestations.attach settled": 481_197,
        "Attestations.reveal": 1_651_677,
        "Courts.appeal": 5_617_299,
        "Courts.commit_opinion": 288_518,
        "Courts.on_initialize": 329_815,
        "Courts.open_opinion": 320_371,
        "Devices.bond_device_extra": 215_424,
        "Devices.pause": 69_931,
        "Devices.register_device": 294_232,
        "Devices.register_provider": 78_613,
        "Devices.resume": 138_133,
        "Devices.unregister_device": 233_238,
        "Devices.unregister_provider": 49_962,
        "InferenceMarket.cancel": 610_008,
        "InferenceMarket.close_service": 246_283,
        "InferenceMarket.commit_result": 517_936,
        "InferenceMarket.create_service": 202_921,
        "InferenceMarket.decline": 504_500,
        "InferenceMarket.offer": 453_619,
        "InferenceMarket.on_initialize": 687_283,
        "InferenceMarket.on_initialize draw": 513_211,
        "InferenceMarket.on_initialize end_offer": 204_802,
        "InferenceMarket.on_initialize expiry": 181_242,
        "InferenceMarket.on_initialize look": 369,
        "InferenceMarket.on_initialize order": 3_678,
        "InferenceMarket.on_initialize racer": 141_093,
        "InferenceMarket.on_initialize scan": 19_497,
        "InferenceMarket.on_initialize step": 467_022,
        "InferenceMarket.on_initialize stir": 151_476,
        "InferenceMarket.on_initialize turn": 100_905,
        "InferenceMarket.post": 473_997,
        "InferenceMarket.post unit": 206_826,
        "InferenceMarket.withdraw_offer": 359_476,
    },
)
