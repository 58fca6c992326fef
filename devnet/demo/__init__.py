"""The demo: a network that mines real inference and catches a cheat.

In reading order:

* `steps`: the steps beside the units: a training task, a batch, a poll, an election
* `container`: a program in a container beside both
* `summary`: tables, and the failed requirements
* `real_model`: a question to a language model, in plain words
* `__main__`: the sequence of the steps
"""
