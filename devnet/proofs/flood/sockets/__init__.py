"""Attacks by connections that are held and not used.

In reading order:

* `held`: connections that are opened, fed a byte now and then, and never used
"""
