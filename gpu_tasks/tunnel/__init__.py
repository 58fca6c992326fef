"""The encrypted way from a customer to its container: what both ends of a tunnel share.

In reading order:

* `handshake`: both prove who they are, and agree on keys
* `frames`: what is said over a tunnel, byte by byte
* `multiplexer`: many streams over one connection, each with a window
"""
