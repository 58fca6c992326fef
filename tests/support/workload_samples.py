"""A line of a customer's file for each workload, as its form takes it: what the tests of all forms ask.

What a form shows of the request begins with it.
"""

SAMPLES = {
    "textgen-int8": "def f(",
    "matmul-hash": "17",
}
