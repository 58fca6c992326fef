"""The commands of `ogpu-wallet`, a file for each subject.

In reading order:

* `opening`: the options before the commands of a program that works with keys, and the session for these
* `options`: what several commands take
* `making`: how a call is shown, asked for and sent
* `keys`: make, import, list
* `money`: balances and transfers
* `locks`: what is locked, until when, and what could take it
* `staking`: bond, delegate, rewards, validators
* `parameters`: the numbers that the chain goes by
* `call`: any other call of the chain
* `why`: what became of an extrinsic
"""
