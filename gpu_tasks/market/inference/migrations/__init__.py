"""What older programs stored of the market, in the form of now.

In reading order:

* `from_any_class`: version 3: a unit may name a class of devices
* `from_one_clock`: version 2: each racer has a clock of its own
* `from_flat_prices`: version 1: prices are for a thousand output tokens, and a unit has many requests
* `versions`: which of them brings what was found into the form of now
"""
