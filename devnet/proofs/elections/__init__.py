"""`make elections`: the stake elects who validates, on a real devnet of six with four seats, over 30 epochs.

In reading order:

* `recount`: the next set, reckoned anew from a state, by another way than the chain's (pure)
* `terms`: who sat when, and what the sets of all epochs show (pure)
* `watching`: what the chain does meanwhile: sets, recounts, how long blocks take to become final
* `scenes`: what is done to it: stake that moves, kills, jail, an offence
* `__main__`: all of it, and the bars
"""
