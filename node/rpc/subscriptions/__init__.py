"""Subscriptions: one item for many clients.

In reading order:

* `broadcast`: items from one writer to many listeners
* `shared_items`: items with one text for all subscribers of a kind
* `feeder`: the writing of these texts to one connection, a piece in each of its turns
* `shares`: the limits of subscriptions
"""
