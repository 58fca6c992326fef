"""Attacks on a provider's blob store.

In reading order:

* `uploads`: uploads that keep a provider's blob store from its own work
"""
