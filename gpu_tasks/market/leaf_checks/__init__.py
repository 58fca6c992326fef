"""Audits of batches by their leaves: drawn leaves of every settled result are shown and computed again.

In reading order:

* `proofs`: the proof of computed leaves with which an auditor passes a batch
* `fees`: the cost of a check, the holds of its parties, and its payments
* `checks`: the records: a check with its terms, its leaves and its auditors
* `events`: the events and errors of LeafChecks
* `storage`: the storage, the schedules, and the validators that may audit
* `ending`: the end of a check: its money, and the release of all holds
* `cases`: the cases of a check: their subjects and their consequences
* `life`: a check from the settlement of its batch to its end
* `leaf_checks`: the pallet LeafChecks
* `leaf_checks_api`: queries of providers, auditors and customers about checks of batches
"""
