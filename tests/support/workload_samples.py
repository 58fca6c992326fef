"""A sample line of a customer's file for each workload, for the tests of all forms.

A form's display of the request begins with the line, or with the part in `shown`.
"""

SHOWN_MAX = 40

SAMPLES = {
    "decoder-int8:ogpu-bytes": "def f(",
    "train-int8": "the cat sat on the mat, and so it did all day; " * 30,
    "matmul-hash": "17",
    "render-tile": "picture 6 4; samples 2; bounces 3; camera 0 1 -4 0 0.5 0 1.5; sphere 0 0.5 0 0.5 matte #c04030",
}


def shown(name: str) -> str:
    """Return the least that a form must show of its sample."""
    return SAMPLES[name][:SHOWN_MAX]
