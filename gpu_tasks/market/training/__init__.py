"""Tasks that go to auction: whom they are given to, for how much, and who gets what of the money.

In reading order, first the rules as pure functions:

* `rules`: what a task goes by: the numbers of market and courts as they were when it was submitted
* `reputation`: what a provider has settled and failed, as value, and what a task makes of it
* `terms`: what a task wants, and what a bid offers
* `selection`: who wins, at which price, and why everybody else does not
* `money`: the money table: in each outcome, who gets which part of what was locked for a slot
* `table_page`: the money table as a page shows it

then the pallet:

* `orders`: what a customer orders, and how it is checked
* `tasks`: a task as it stands: what was ordered, who works on it, how far it came
* `task_statement`: a provider's signed statement that it has reached a milestone, or the result
* `bids`: a bid, and what is committed to
* `replicas`: who is drawn to compute the same, what each is bound to, what most of them agree on
* `showing`: which stretches of a trace are looked at, and whether what is shown of them is in it
* `events`: what TrainingMarket tells the world, and why a call of it can fail
* `replica_events`: the same of replicas
* `numbers`: the numbers of the market that a chain may change
* `storage`: storage, and which block looks at which task
* `fraud_claims`: fraud proofs before they are opened, and their bonds
* `purses`: what is held for a slot, and how a row of the money table moves it
* `time_paid`: what bought time has paid by now, for whoever only reads
* `life`: what calls and deadlines do: bids, awards, work, failures, judges, ends
* `task_duties`: what a provider may or must do next for what it has of a task
* `training_market`: the pallet TrainingMarket
* `training_api`: what customers, providers and explorers ask about tasks and their auctions
"""
