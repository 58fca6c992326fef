"""Elections by stake on a real devnet of six validators and four seats, over 30 epochs: `make elections`.

In reading order:

* `recount`: the next set, computed again from a state; observations of the chain
* `__main__`: the events: moving stake, kills, jail, an offence; the requirements
"""
