"""Nodes and blob stores that lie to every program on a live devnet, and the harm that they do.

In reading order:

* `lie`: a lie: its name, its words, the programs that hear it, and what these must say of it
* `node_lies`: about the chain and its final blocks; proofs that prove nothing; answers that are none or badly delivered
* `state_lies`: about values, validators, readers, and the fate of an extrinsic
* `catalogue`: lies of blob stores, and every lie by name
* `proxies`: between a program and its node, and before a provider's blob store
* `people`: an account for each lie and program, and its commands
* `money`: the true chain's account of their money, and of bonds
* `judging`: the bars, and those that a lie missed
* `scenes`: the tellings: a wallet sends, a customer posts, a provider works, a store is used
* `course`: the devnet behind proxies; all lies under load; many units beside bad stores
* `__main__`: a scenario for each lie
"""
