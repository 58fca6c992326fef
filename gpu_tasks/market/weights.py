"""What calls and hooks of the market's pallets weigh.

Generated: `make weights WRITE=1` measures and writes it, and nobody else does.
Nanoseconds of reference time, of which verifying a signature takes 40,000 (`runtime.frame.weights.SIGNATURE`).
"""

from runtime.frame.measured import MeasuredWeights

WEIGHTS = MeasuredWeights(
    "c7ad7c7237cfde02ebd97ad38a4f2cd6",
    {
        "Attestations.attach": 203_499,
        "Attestations.attach attestation": 152_105,
        "Attestations.attach racer": 29_184,
        "Attestations.attach settled": 318_470,
        "Attestations.reveal": 1_169_093,
        "Courts.appeal": 1_856_620,
        "Courts.commit_opinion": 215_593,
        "Courts.on_initialize": 272_900,
        "Courts.open_opinion": 219_212,
        "Devices.bond_device_extra": 161_669,
        "Devices.pause": 55_717,
        "Devices.register_device": 211_681,
        "Devices.register_provider": 64_232,
        "Devices.resume": 102_505,
        "Devices.unregister_device": 168_174,
        "Devices.unregister_provider": 38_531,
        "InferenceMarket.cancel": 454_950,
        "InferenceMarket.close_service": 187_649,
        "InferenceMarket.commit_result": 439_658,
        "InferenceMarket.create_service": 194_703,
        "InferenceMarket.decline": 312_774,
        "InferenceMarket.offer": 347_044,
        "InferenceMarket.on_initialize": 581_205,
        "InferenceMarket.on_initialize draw": 428_657,
        "InferenceMarket.on_initialize end_offer": 159_611,
        "InferenceMarket.on_initialize expiry": 135_793,
        "InferenceMarket.on_initialize look": 167,
        "InferenceMarket.on_initialize order": 3_212,
        "InferenceMarket.on_initialize racer": 101_430,
        "InferenceMarket.on_initialize scan": 16_815,
        "InferenceMarket.on_initialize step": 350_998,
        "InferenceMarket.on_initialize stir": 120_711,
        "InferenceMarket.on_initialize turn": 190_761,
        "InferenceMarket.post": 306_492,
        "InferenceMarket.post unit": 170_915,
        "InferenceMarket.withdraw_offer": 263_089,
    },
)
