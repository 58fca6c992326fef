"""Batches whose racers answered differently: each side shows its tree on chain, and one leaf goes before the courts.

In reading order:

* `disputes`: the records: the sides, what each has shown, and the leaf that they differ in
* `events`: what LeafDisputes tells the world, and why a call of it can fail
* `storage`: storage, which block looks at which dispute, what a handler must do
* `comparing`: from what sides show to the leaf that they differ in
* `leaf_disputes`: the pallet LeafDisputes
* `leaf_disputes_api`: what racers and customers ask about disputes of batches
"""
