"""Who plays a part in a batch, and plays it wrongly: over the real pallets in memory, who gains what.

In reading order:

* `parts`: a chain of unequal stakes, with a gang on it; everybody else does as daemons do
* `scores`: what came of a batch beside what the formula of docs/batches.md says, in prices of the batch
* `misdeeds`: leaves and trees withheld, auditors that compute nothing, false disputes, pairs that agree on a lie
"""
