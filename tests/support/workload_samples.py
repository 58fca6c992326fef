"""A line of a customer's file for each workload, as its form takes it: what the tests of all forms ask.

What a form shows of the request begins with it, or with as much of it as `shown`.
"""

SHOWN_MAX = 40

SAMPLES = {
    "textgen-int8": "def f(",
    "train-int8": "the cat sat on the mat, and so it did all day; " * 30,
    "matmul-hash": "17",
    "render-tile": "picture 6 4; samples 2; bounces 3; camera 0 1 -4 0 0.5 0 1.5; sphere 0 0.5 0 0.5 matte #c04030",
}


def shown(name: str) -> str:
    """What a form shows of its sample, at the least."""
    return SAMPLES[name][:SHOWN_MAX]
