"""The encrypted tunnel from a customer to its container or session: the code that both ends share.

In reading order:

* `handshake`: authentication of both sides, and their session keys
* `frames`: the messages inside a stream, byte by byte
* `tunnel`: many streams over one connection, each with a window
"""
