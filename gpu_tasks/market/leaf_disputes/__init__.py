"""Batches whose racers answered differently: each side shows its tree on chain, and one leaf goes before the courts.

In reading order:

* `leaf_disputes`: the pallet: the call, the hook, the verbs for handlers
* `comparing`: from what sides show to the leaf that they differ in
* `ground`: storage, and which block looks at which dispute
* `events`, `numbers`
* `disputes`: the records
"""
