"""Units that nobody can serve now, and what wakes them.

In reading order:

* `sleepers`: units that could not be matched, until a slot of their service is freed or changed
"""
