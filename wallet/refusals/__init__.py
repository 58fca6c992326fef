"""Reasons for which the chain refuses a call: a sentence with the missing number and the remedy.

In reading order:

* `refused_call`: the refused call, and the phrases that all sentences share
* `bonds`: sentences about a validator's own bond, and about leaving stake
* `delegations`: sentences about stake behind others
* `offers`: sentences about offers to validate, commissions and profiles
* `sentences`: the sentence of each error
"""
