"""Chains of a few pallets in memory, driven block by block: for tests, simulations and benchmarks.

* `named_keys`: a stash and its linked keys, made from a name
* `extrinsics`: calls that an account signs
* `presence`: heartbeats, and certificates signed by all seats
* `market_chain`: a chain of the economic pallets without an executive; steps of customers, racers, newcomers
* `evidence`: two headers of one author in one slot
* `dispute_chain`: disputes and a handler without a market, with voters that follow a policy
* `claim_chain`: claims of a toy market, with a provider and checkers that follow policies
"""
