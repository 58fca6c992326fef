"""Misconduct of the parties of a batch, over the real pallets in memory: gains and losses.

In reading order:

* `parts`: a chain of unequal stakes, with a gang on it; all others act as daemons do
* `scores`: the result of a batch beside the formula of docs/batches.md, in prices of the batch
* `misdeeds`: leaves and trees withheld, auditors that compute nothing, false disputes, pairs that agree on a lie
"""
