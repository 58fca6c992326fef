"""Units that no slot can serve now, and the events that wake them.

In reading order:

* `sleepers`: units without a match, until a slot of their service is freed or changed
"""
