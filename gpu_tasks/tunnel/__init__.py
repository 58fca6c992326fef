"""The encrypted tunnel from a customer to its container: the code that both ends share.

In reading order:

* `handshake`: authentication of both sides, and their session keys
* `frames`: the messages inside a tunnel, byte by byte
* `multiplexer`: many streams over one connection, each with a window
"""
