"""Budgets: an owner's money, which named keys spend within their caps, for units and sessions alone.

In reading order:

* `events`: the events and errors of Budgets
* `records`: a budget, its account, its delegates and their caps
* `purchases`: the calls that a delegate may make, and the part of each that its caps limit
* `budgets`: the pallet Budgets
* `budgets_api`: queries of owners and delegates
"""
