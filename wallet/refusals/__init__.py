"""Why the chain refuses a call, in a sentence that names the number that is missing, and what to do instead.

In reading order:

* `refused_call`: what was refused, and the words that all sentences share
* `bonds`: of a validator's own bond, and of what leaves
* `delegations`: of stake behind others
* `offers`: of offers to validate, commissions and profiles
* `sentences`: which error has which sentence
"""
