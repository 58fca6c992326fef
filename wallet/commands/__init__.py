"""The commands of `ogpu-wallet`, a file for each subject.

In reading order:

* `opening`: the options before the commands of a program that works with keys, and the session for these
* `options`: what several commands take
* `making`: how a call is shown, asked for and sent
* `keys`: make, import, list
* `money`: balances and transfers
* `chain_time`: when an epoch will begin, about
* `locks`: what is locked, until when, and what could take it
* `naming`: validators by the names that they give themselves
* `staking_facts`: what every command about stake shows: the time on the chain, when money is free, the risks
* `delegating`, `bonding`: stake behind others, and behind oneself
* `earning`: rewards
* `validating`: what a validator offers, asks and calls itself
* `stakes_table`, `validators_table`: who has what at stake, and who validates
* `history`: what an account did, earned and lost with its stake
* `parameters`: the numbers that the chain goes by
* `call`: any other call of the chain
* `why`: what became of an extrinsic
"""
