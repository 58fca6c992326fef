"""What an empty block weighs, and an extrinsic besides its call.

Generated: `make weights WRITE=1` measures and writes it, and nobody else does.
Nanoseconds of reference time, of which verifying a signature takes 40,000 (`runtime.frame.weights.SIGNATURE`).
"""

from runtime.frame.measured import MeasuredWeights

WEIGHTS = MeasuredWeights(
    "829316f801729ceede64364e331352b9",
    {
        "block": 4_094_218,
        "extrinsic": 47_635,
    },
)
