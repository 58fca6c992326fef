"""The demo: a network that mines real inference and catches a cheat.

In reading order:

* `container`: a program in a container
* `summary`: tables, and the failed requirements
* `payments`: the wait for the payments of all answers
* `steps`: the other steps: a training task, a batch, a poll, an election
* `real_model`: the installation and the offers of models
* `question`: a question to a language model, in plain words
* `search`: the nearest of twenty sentences, by their vectors
* `__main__`: the sequence of the steps
"""
