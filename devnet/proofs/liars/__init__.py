"""Nodes and blob stores that lie to the programs which people run, on a live devnet, and what comes of it.

In reading order:

* `lie`: what a lie is: a name, what is said instead of the truth, to whom, and what they must say of it
* `heads`: wrong chains and rules, and heads that stand still
* `certificates`: wrong answers to which block is final
* `holes`: proofs that prove nothing
* `values`: wrong values, plain and in proofs
* `validators`: wrong answers to who sits: another chain, other handoffs
* `statuses`: forged statuses of what was sent
* `delivery`: true answers, badly delivered
* `shapes`: answers that are none
* `readers`: wrong answers to who must be among the readers of an input
* `stores`: lies of blob stores
* `catalogue`: every lie, and those of which no proof exists
* `node_proxy`: between a program and its node
* `store_proxy`: before a provider's blob store
* `network`: the devnet, with a proxy before every store and between every program and its node
* `people`: who gives commands: an account for each lie and program
* `money`: what the true chain says of their money, and of bonds
* `judging`: the bars, and which of them a lie missed
* `scenes`: what happens while a lie is told
* `telling`: what the run prints
* `bad_stores`: many units while stores drip, are full and gone
* `course`: all lies under load, and the judgement
"""
