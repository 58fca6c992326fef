"""What clients see of the runtime: metadata, and the runtime APIs that answer `state_call`.

In reading order:

metadata_schema     the shape of Substrate's metadata
metadata            the runtime's description of itself
standard_apis       the runtime APIs that every Substrate client knows
staking_api         ours: validators, stakes and rewards
parameters_api      ours: the numbers that the chain goes by
locks               what is locked of an account, as people ask: the form of an answer
stake_locks         what is said of stakes
"""
