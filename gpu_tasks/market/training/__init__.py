"""Tasks that are sold by auction: bids, prices, awards, work and money.

In reading order, first the rules as pure functions:

* `rules`: the rules of a task: a copy of the parameters of market and claims at its submission
* `reputation`: a provider's settled and failed value, and the failure that a task expects of it
* `terms`: the terms of a task, and the terms of a bid
* `selection`: the winners of an auction, their prices, and the fate of every other bid
* `money`: the money table: the recipients of a slot's locked money in each outcome
* `table_page`: the money table as Markdown

then the pallet:

* `orders`: a customer's order, with the way in which its result is checked
* `tasks`: the record of a task: its order, its providers, its progress
* `task_statement`: a provider's signed statement of a milestone or a result
* `bids`: a bid, and the commitment to it
* `replicas`: the draw of replicas, their commitments, and the agreement of a majority
* `items`: the items of a task's claim
* `events`: the events and errors of TrainingMarket
* `numbers`: the parameters of the market
* `storage`: the storage, and the schedules of tasks
* `purses`: the holds of a slot, and payments by the rows of the money table
* `time_paid`: the payments for bought time so far, computed from the record for readers
* `life`: the effects of calls and deadlines: bids, awards, work, failures, claims, disputes, ends
* `task_duties`: the next duty or option of a provider in each of its tasks
* `training_market`: the pallet TrainingMarket
* `training_api`: queries of customers, providers and explorers about tasks and their auctions
"""
