"""Stake and its liability: bonds, eras, rewards, offences, slashes.

In reading order:

* `slashing`: the size of a slash, and its recipients
* `slash_factors`: slashes of stake that has left
* `share_pool`: grains owned by shares
* `stakers`: the records of TrustStake
* `delegations`: positions behind a validator, and their rewards
* `staking_events`: the events and errors of TrustStake
* `seats`: the sets of all epochs, signs of life, jail: the storage of elections
* `presence`: signs of life: authors of blocks, and voters in certificates
* `stake_ledger`: the storage of TrustStake, and the methods that keep its sums true
* `holdings`: positions and unlocking stake, brought up to date
* `held_slashes`: unapplied slashes: proven and not yet taken
* `elections`: the election of a set, and the liability that it leaves
* `eras`: the start of an era
* `returns`: the expected return of stake, from the last era
* `trust_stake`: the pallet TrustStake: calls
* `double_headers`: the evidence of two headers in one slot
* `offences`: offences proven by evidence of headers, proposals and votes
* `trust_lock`: the pallet TrustLock: locks by case, offences
"""
