"""Courts and audits: a pallet that judges cases of any other pallet, keyed by case.

In reading order:

* `opinions`: a judge's opinion, and the commitment before it
* `benches`: the draw of a bench, and its decision
* `money`: the money table: charges and payments in each outcome
* `table_page`: the money table as Markdown
* `cases`: the records: a case with its terms and claims, its benches, a judge's seat
* `handlers`: the interface of pallets whose cases are judged
* `events`: the events and errors of Courts
* `numbers`: the parameters of the courts
* `storage`: the storage, and the validators that may judge
* `closing`: the end of a case: its outcome and its money
* `hearing`: a case from its opening to its last opinion
* `courts`: the pallet Courts
* `courts_api`: queries of judges, parties and explorers about cases and seats
"""
