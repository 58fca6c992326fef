"""The commands of `ogpu-wallet`, a file for each subject.

In reading order:

* `keys`: make, import, list
* `money`: balances and transfers
* `lock_words`: the sentences about locked money: its purpose, its end, what could take it
* `locks`: what is locked, until when, and what could take it
* `validator_names`: validators by the names that they give themselves
* `staking_facts`: what every command about stake shows: the time on the chain, when money is free, the risks
* `delegations`, `bonds`: stake behind others, and behind oneself
* `rewards`: rewards
* `validators`: what a validator offers, asks and calls itself
* `stakes_table`, `validators_table`: who has what at stake, and who validates
* `history`: what an account did, earned and lost with its stake
* `parameters`: the numbers that the chain goes by
* `call`: any other call of the chain
* `why`: what became of an extrinsic
* `program`: `ogpu-wallet`, and the list of its commands
"""
