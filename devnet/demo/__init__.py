"""The demo: a network that mines real inference and catches a cheat.

In reading order:

* `steps`: the steps beside the units: a training task, a batch, a poll, an election
* `container`: a program in a container beside both
* `summary`: tables, and the failed requirements
* `real_model`: the installation and the offers of models
* `question`: a question to a language model, in plain words
* `search`: the nearest of twenty sentences, by their vectors
* `__main__`: the sequence of the steps
"""
