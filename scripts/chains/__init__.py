"""Chains of a few pallets in memory, driven block by block: for tests and for the tools beside them.

In reading order:

* `naive_stakes`: the rule of stakes in fractions, by a visit to everybody
* `named_keys`: a stash and the keys that it links, made from a name
* `market_chain`: a chain of the economic pallets alone, without an executive
* `crowds`: many open tasks and units on a chain of both markets
* `evidence`: two headers of one author in one slot
* `toy_handler`: a handler of cases that is no market
* `newcomers`: who joins a chain after its block 0
* `judge_steps`: what a judge does with its seat
* `court_chain`: a chain with courts and that handler, with judges who act as a policy says
"""
