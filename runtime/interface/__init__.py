"""The view of clients: metadata, and the runtime APIs that answer `state_call`.

In reading order:

* `metadata_schema`: the shape of Substrate's metadata
* `metadata`: the runtime's description of itself
* `standard_apis`: the runtime APIs that every Substrate client knows
* `staking_api`: ours: validators, stakes and rewards
* `parameters_api`: ours: the chain's parameters
* `locks_api`: ours: an account's locked money, when it is free, and how much of it can be taken
"""
