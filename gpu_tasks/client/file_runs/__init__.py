"""A file of many requests on its way: from its lines to units on the chain, and from their ends to its answers.

In reading order:

* `plan`: a file before anything is posted: read, split into units, and what its record already says of it
* `cancellation`: a run that is to end before all is answered
* `answers`: the answers of its units, as they end: fetched, checked against what was paid, and written down at once
"""
