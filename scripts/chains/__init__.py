"""Chains of a few pallets in memory, driven block by block, and their books: for tests and for the tools beside them.

In reading order:

* `hold_books`: what is held by case, counted independently of the pallet
* `court_books`: the same of the courts: what judges and appellants hold, what is awaited
* `task_books`: the same of tasks
* `stake_holds`: the same of stakes
* `naive_stakes`: the rule of stakes in fractions, by a visit to everybody
* `market_books`: the same of all economic pallets
* `named_keys`: a stash and the keys that it links, made from a name
* `market_chain`: a chain of the economic pallets alone, without an executive
* `crowds`: many open tasks and units on a chain of both markets
* `evidence`: two headers of one author in one slot
* `toy_handler`: a handler of cases that is no market
* `newcomers`: who joins a chain after its block 0
* `judge_steps`: what a judge does with its seat
* `court_chain`: a chain with courts and that handler, with judges who act as a policy says
"""
