"""What an empty block weighs, and an extrinsic besides its call.

Generated: `make weights WRITE=1` measures and writes it, and nobody else does.
Nanoseconds of reference time, of which verifying a signature takes 40,000 (`runtime.frame.weights.SIGNATURE`).
"""

from runtime.frame.measured import MeasuredWeights

WEIGHTS = MeasuredWeights(
    "3e3bf36c512326584793c1fb0cab0d89",
    {
        "block": 2_682_463,
        "extrinsic": 45_413,
    },
)
