"""Chains of a few pallets in memory, driven block by block: for tests, simulations and benchmarks.

* `named_keys`: a stash and the keys that it links, made from a name
* `extrinsics`: calls that an account signs
* `presence`: heartbeats, and certificates that everybody with a seat signed
* `market_chain`: a chain of the economic pallets without an executive; steps of customers, racers, judges, newcomers
* `evidence`: two headers of one author in one slot
* `batch_chain`: batches that are checked by their leaves, or disputed
* `court_chain`: courts and a handler of cases that is no market, with judges who follow a policy
"""
