"""Subscriptions: many clients hear of one thing.

In reading order:

* `broadcast`: items from one writer to many listeners
* `shared_items`: what every subscriber of a kind is told in the same words
* `feeder`: writes these words to one connection, a piece in each of its turns
* `shares`: how many subscriptions there may be
"""
