"""The auction of training tasks, as pure functions: who is awarded a task, at which price, who gets what of the money.

In reading order:

* `rules`: what a task goes by: the numbers of market and courts as they were when it was submitted
* `reputation`: what a provider has settled and failed, as value, and what a task makes of it
* `terms`: what a task wants, and what a bid offers
* `selection`: who wins, at which price, and why everybody else does not
* `money`: the money table: in each outcome, who gets which part of what was locked for a slot
* `table_page`: the money table as a page shows it
"""
