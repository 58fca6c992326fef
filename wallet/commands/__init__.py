"""The commands of `ogpu-wallet`, a file for each subject.

In reading order:

* `options`: what several commands take
* `making`: how a call is shown, asked for and sent
* `keys`: make, import, list
* `money`: balances and transfers
* `staking`: bond, delegate, rewards, validators
* `call`: any other call of the chain
* `why`: what became of an extrinsic
"""
