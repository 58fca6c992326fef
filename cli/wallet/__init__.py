"""The commands of `ogpu-wallet`, a file for each subject.

In reading order:

* `keys`: make, import, list
* `money`: balances and transfers
* `lock_words`: the words for locked money: its purpose, its end, its risks
* `locks`: locked money with its end and its risks
* `validator_names`: validators by the names that they chose
* `staking_facts`: the facts beside every call about stake: time, release of money, risks
* `delegations`, `bonds`: stake behind other validators, and one's own bond
* `rewards`: rewards
* `validators`: candidacy, commission, profile and keys of a validator
* `stakes_table`, `validators_table`: the stakes of an account; validators and candidates
* `history`: transfers, stake, rewards and slashes of an account
* `parameters`: the chain's parameters
* `call`: any other call of the chain
* `why`: the outcome of an extrinsic
* `program`: `ogpu-wallet`, the declarations of its commands
"""
