"""Nodes and blob stores that lie to the programs which people run, on a live devnet, and what comes of it.

In reading order:

* `lie`: what a lie is: a name, what is said instead of the truth, to whom, and what they must say of it
* `node_lies`: about the chain and its final blocks; proofs that prove nothing; answers that are none or badly delivered
* `state_lies`: about values, validators, readers, and what became of an extrinsic
* `stores`: lies of blob stores
* `catalogue`: every lie, and those of which no proof exists
* `proxies`: between a program and its node, and before a provider's blob store
* `network`: the devnet, with a proxy before every store and between every program and its node
* `people`: who gives commands: an account for each lie and program
* `money`: what the true chain says of their money, and of bonds
* `judging`: the bars, and which of them a lie missed
* `scenes`: what happens while a lie is told
* `telling`: what the run prints
* `bad_stores`: many units while stores drip, are full and gone
* `course`: all lies under load, and the judgement
"""
