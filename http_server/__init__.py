"""HTTP servers that strangers reach: limits of connections and bodies, and fair turns between callers.

In reading order:

* `networks`: the network that a connection comes from
* `turns`: whose turn it is, by the time that each used
* `known_callers`: whose connection it is
* `places`: who yields when there is no room
* `chunks`: bodies in pieces of a few bytes
* `door`: the connections of a server
* `server`: aiohttp behind a door
"""
