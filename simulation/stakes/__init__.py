"""Stakes on shares beside the naive rule, which visits every delegator and computes in fractions.

In reading order:

* `naive`: the rule of stakes in fractions, by a visit to every delegator
* `shadow`: the balances by the naive rule, from a chain's calls and events
* `season`: one chain under random steps, compared after each
* `leaving`: leaving during an offence, in every order around the deadlines
* `seasons`: the results of one chain, or of some interleavings
* `crowds`: the costs of steps with few and with many delegators behind one validator
"""
