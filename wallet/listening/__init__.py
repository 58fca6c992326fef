"""Servers for strangers: who has a place, whose bytes are read next, and how much of it there may be.

In reading order:

* `networks`: the network that a connection comes from
* `turns`: whose turn it is, by the time that each used
* `known_callers`: whose connection it is
* `places`: who yields when there is no room
* `chunks`: bodies in pieces of a few bytes
* `door`: the connections of a server
* `http_server`: aiohttp behind a door
"""
