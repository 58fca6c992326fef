"""What calls and hooks of the market's pallets weigh.

Generated: `make weights WRITE=1` measures and writes it, and nobody else does.
Nanoseconds of reference time, of which verifying a signature takes 40,000 (`runtime.frame.weights.SIGNATURE`).
"""

from runtime.frame.measured import MeasuredWeights

WEIGHTS = MeasuredWeights(
    "c3bb91956e414d65f889ce5777f7a06a",
    {
        "Attestations.attach": 258_889,
        "Attestations.attach attestation": 206_545,
        "Attestations.attach racer": 38_000,
        "Attestations.attach settled": 407_485,
        "Attestations.reveal": 1_546_920,
        "Courts.appeal": 6_779_582,
        "Courts.commit_opinion": 270_543,
        "Courts.on_initialize": 278_212,
        "Courts.open_opinion": 302_866,
        "Devices.bond_device_extra": 200_179,
        "Devices.pause": 77_515,
        "Devices.register_device": 276_789,
        "Devices.register_provider": 93_522,
        "Devices.resume": 139_254,
        "Devices.unregister_device": 211_455,
        "Devices.unregister_provider": 50_365,
        "InferenceMarket.cancel": 563_624,
        "InferenceMarket.close_service": 236_334,
        "InferenceMarket.commit_result": 484_732,
        "InferenceMarket.create_service": 179_712,
        "InferenceMarket.decline": 448_287,
        "InferenceMarket.offer": 406_824,
        "InferenceMarket.on_initialize": 627_092,
        "InferenceMarket.on_initialize draw": 396_362,
        "InferenceMarket.on_initialize end_offer": 209_612,
        "InferenceMarket.on_initialize expiry": 182_396,
        "InferenceMarket.on_initialize look": 219,
        "InferenceMarket.on_initialize order": 3_529,
        "InferenceMarket.on_initialize racer": 129_556,
        "InferenceMarket.on_initialize scan": 23_229,
        "InferenceMarket.on_initialize step": 474_880,
        "InferenceMarket.on_initialize stir": 164_258,
        "InferenceMarket.on_initialize turn": 80_794,
        "InferenceMarket.post": 1_493_391,
        "InferenceMarket.post unit": 199_318,
        "InferenceMarket.withdraw_offer": 359_608,
    },
)
