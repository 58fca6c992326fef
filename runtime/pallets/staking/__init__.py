"""Stake and what it answers for: bonds, eras, rewards, offences, slashes.

In reading order:

slashing            how much an offence costs, and where the money goes
exposures           whose stake stands behind a validator in an era
stakers             the records of TrustStake
staking_events      its events and errors
stake_ledger        its storage, and the verbs that keep the sums true
eras                what happens when an era turns, and payouts
trust_stake         the pallet TrustStake: calls and slashes
double_headers      the evidence of two headers in one slot
trust_lock          the pallet TrustLock: locks by case, offences
"""
