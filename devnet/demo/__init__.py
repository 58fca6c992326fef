"""The demo: a network that mines real inference and catches a cheat.

In reading order:

* `telling`: what it says while it runs
* `stage`: the network, the cheat that joins
* `purchase`: the customer's units, and their trace on the chain
* `batch`: many requests in one unit of the same customer
* `task_sale`: a task that goes to auction, followed to its end
* `training`: one such task beside the units
* `container`: a program in a container beside both
* `election`: stake that seats a fifth candidate
* `poll`: one Snowflake poll
* `summary`: tables, and whether every bar held
* `__main__`: the order of all this
"""
