"""Blobs that a provider stores, serves, fetches and seals again.

In reading order:

* `store`: blobs on the disk
* `request_slots`: limits on simultaneous and on slow requests
* `kept_inputs`: copies of inputs, their purposes, and their removal
* `inputs`: fetching, opening and checking the inputs of units and tasks
* `deliveries`: the delivery of a claim, sealed to its checkers and voters
* `server`: the provider's HTTP server
"""
