"""Courts and audits: a pallet that judges cases of any other, keyed by case.

In reading order:

* `opinions`: what a judge says, and what it commits to before
* `benches`: who sits, and when a bench has decided
* `due`: the order in which cases that are due are looked at
* `money`: the money table: who loses what in each outcome, and who gets it
* `table_page`: the money table as a page shows it
* `cases`: the records: a case with its terms and claims, its benches, a judge's seat
* `handlers`: what a pallet must do to have its cases judged
* `events`: what Courts tells the world, and why a call of it can fail
* `numbers`: the numbers of the courts that a chain may change
* `storage`: storage, who may judge
* `closing`: how a case ends: its outcome and its money
* `hearing`: a case from its opening to its last opinion
* `courts`: the pallet Courts
* `courts_api`: what judges, parties and explorers ask about cases and seats
"""
