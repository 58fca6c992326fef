"""Blobs that a provider stores, serves, fetches and seals again.

In reading order:

* `store`: blobs on the disk
* `request_slots`: how many requests at once, and how slow one may be
* `reseal`: a racer's output for a judge
* `server`: the HTTP face of a provider
* `kept_inputs`: which inputs are kept, for which work, and what goes for want of room
* `inputs`: from a unit or a task on the chain to what it asks for
"""
