"""The stake elects who validates, on a real devnet of six with four seats, over 30 epochs: `make elections`.

In reading order:

* `recount`: the next set, reckoned anew from a state; what the chain does meanwhile
* `__main__`: what is done to it: stake that moves, kills, jail, an offence; the bars
"""
