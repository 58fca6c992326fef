"""Stakes on shares beside the naive rule, which visits everybody and reckons in fractions.

In reading order:

* `naive`: the rule of stakes in fractions, by a visit to everybody
* `shadow`: what everybody must have by the naive rule, from what was asked of a chain and what it says that happened
* `season`: one chain under random steps, compared after each
* `leaving`: leaving while somebody offends, in every order around the edges
* `seasons`: what comes of one chain, or of some interleavings
* `crowds`: what steps cost with few and with many delegators behind one validator
"""
