"""Batches whose racers answered differently: each side shows its tree on chain, and voters judge one leaf.

In reading order:

* `disputes`: the records: the sides, their shown nodes, and the disputed leaf
* `events`: the events and errors of LeafDisputes
* `storage`: the storage, the schedule of disputes, and the interface of handlers
* `comparing`: from the shown nodes to the disputed leaf
* `leaf_disputes`: the pallet LeafDisputes
* `leaf_disputes_api`: queries of racers and customers about disputes of batches
"""
