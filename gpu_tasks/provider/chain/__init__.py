"""The chain as the provider's programs see it.

In reading order:

port.py   what a daemon needs of a chain
live.py   that, behind a node's JSON-RPC
trial.py  what the chain would say to calls that are not sent
"""
