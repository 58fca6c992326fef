"""What clients see of the runtime: metadata, and the runtime APIs that answer `state_call`.

In reading order:

metadata_schema     the shape of Substrate's metadata
metadata            the runtime's description of itself
standard_apis       the runtime APIs that every Substrate client knows
staking_api         ours: validators, stakes and rewards
parameters_api      ours: the numbers that the chain goes by
locks_api           ours: what is locked of an account, until when, how much of it can be taken
"""
