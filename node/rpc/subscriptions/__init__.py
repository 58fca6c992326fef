"""Subscriptions: many clients hear of one thing.

In reading order:

* `broadcast`: items from one writer to many listeners
* `shared_items`: what every subscriber of a kind is told in the same words
* `long_items`: what takes long to work out, only when there is room for it
* `feeder`: writes these words to one connection, a piece in each of its turns
* `shares`: how many subscriptions there may be
"""
