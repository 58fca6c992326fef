"""What an empty block weighs, and an extrinsic besides its call.

Generated: `make weights WRITE=1` measures and writes it, and nobody else does.
Nanoseconds of reference time, of which verifying a signature takes 40,000 (`runtime.frame.weights.SIGNATURE`).
"""

from runtime.frame.measured import MeasuredWeights

WEIGHTS = MeasuredWeights(
    "7b3df64d9dd852b13fb6a3aa6614f2be",
    {
        "block": 3_026_821,
        "extrinsic": 47_635,
    },
)
