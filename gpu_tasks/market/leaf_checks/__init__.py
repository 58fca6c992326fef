"""Checks of batches by their leaves: of every result that is settled, drawn leaves are shown and computed again.

In reading order:

* `proofs`: what an auditor has to have computed before it can pass
* `fees`: what a check costs, what an auditor stands for, and who pays whom when a check ends
* `checks`: the records: a check with its terms, its leaves and its auditors
* `events`: what LeafChecks tells the world, and why a call of it can fail
* `storage`: storage, agendas, who may audit
* `ending`: how a check ends: its money, and everybody free
* `cases`: what a check brings before the courts, and what comes of it
* `life`: a check from the settlement of its batch to its end
* `leaf_checks`: the pallet LeafChecks
* `leaf_checks_api`: what providers, auditors and customers ask about checks of batches
"""
