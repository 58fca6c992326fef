"""The demo: a network that mines real inference and catches a cheat.

In reading order:

* `batch`: many requests in one unit
* `training`: a training task beside the units
* `container`: a program in a container beside both
* `election`: stake that seats a fifth candidate
* `poll`: one Snowflake poll
* `summary`: tables, and whether every bar held
* `__main__`: the order of all this
"""
