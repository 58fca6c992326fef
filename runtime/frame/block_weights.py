"""What an empty block weighs, and an extrinsic besides its call.

Generated: `make weights WRITE=1` measures and writes it, and nobody else does.
Nanoseconds of reference time, of which verifying a signature takes 40,000 (`runtime.frame.weights.SIGNATURE`).
"""

from runtime.frame.measured import MeasuredWeights

WEIGHTS = MeasuredWeights(
    "46635055276d9645ab790de6ea38ba04",
    {
        "block": 3_179_361,
        "extrinsic": 42_866,
    },
)
