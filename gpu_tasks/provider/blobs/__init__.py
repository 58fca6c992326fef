"""Blobs that a provider stores, serves, fetches and seals again.

In reading order:

store.py          blobs on the disk
request_slots.py  how many requests at once, and how slow one may be
server.py         their HTTP face
inputs.py         from a unit on the chain to what it asks for
reseal.py         a racer's output for a judge
"""
