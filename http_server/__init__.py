"""Public HTTP servers: limits of connections and bodies, and fair turns between callers.

In reading order:

* `turns`: the order of callers, by the time that each used
* `known_callers`: the callers behind connections
* `places`: eviction when a server is full
* `door`: the connections of a server
* `server`: aiohttp behind a door
"""
