"""Budgets on a live devnet: used as intended, and then robbed with a delegate's key.

In reading order:

* `scenes`: the budgets, their owner, and the final chain's events
* `course`: a budget from its creation to its end
* `theft`: all that a thief tries with a delegate's key, and the most that it takes
* `__main__`: the proof
"""
