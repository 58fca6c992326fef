"""The chain as the provider's programs see it.

In reading order:

* `port`: what a daemon needs of a chain
* `live`: that, behind a node's JSON-RPC
"""
