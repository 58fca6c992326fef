"""The modules of the state transition, one pallet a file.

In reading order, which is nearly the order of execution:

* `weights`: the weights of calls and hooks: generated
* `system`: accounts, events, block hashes
* `timestamp`: the time of a block
* `hold_book`: held money by account and case, and its sums
* `balances`: the ledger and its transfers: the model of a pallet
* `transaction_payment`: fees
* `utility`: several calls in one transaction
* `beacon`: epochs, randomness, the newest final block
* `pots`: accounts of the chain itself
* `churn`: the most that one election may change the active set
* `session_keys`: a stash's proof that it owns its session and VRF keys
* `staking`: bonds, elections, eras, rewards, locks and slashes
* `session`: the active set in the form that explorers read
* `im_online`: signs of life of candidates without a seat
* `chain_parameters`: the call that changes a parameter
* `sudo`: the powers of Root, on development chains
"""
