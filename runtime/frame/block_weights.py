"""What an empty block weighs, and an extrinsic besides its call.

Generated: `make weights WRITE=1` measures and writes it, and nobody else does.
Nanoseconds of reference time, of which verifying a signature takes 40,000 (`runtime.frame.weights.SIGNATURE`).
"""

from runtime.frame.measured import MeasuredWeights

WEIGHTS = MeasuredWeights(
    "7283c10428ef0edc8256c7b7380deddc",
    {
        "block": 3_014_029,
        "extrinsic": 41_228,
    },
)
