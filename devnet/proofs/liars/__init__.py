"""Nodes and blob stores that lie to every program on a live devnet, and the harm that they do.

In reading order:

* `lie`: a lie: its name, its false statement, its target programs, and the words that name it
* `node_lies`: lies about the chain and its final blocks; invalid proofs; malformed answers; faulty delivery
* `state_lies`: lies about values, validators, readers, and the fate of an extrinsic
* `catalogue`: lies of blob stores, and every lie by name
* `proxies`: proxies between a program and its node, and in front of a provider's blob store
* `people`: an account for each lie and program, and its commands
* `money`: the true chain's account of their money, and of bonds
* `judging`: the requirements, and the failed ones of a lie
* `scenes`: the scenes of a lie: a wallet sends, a customer posts, a provider works, a client uses a store
* `course`: the devnet behind proxies; all lies under load; many units beside bad stores
* `__main__`: a scenario for each lie
"""
