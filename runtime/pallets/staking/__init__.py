"""Stake and what it answers for: bonds, eras, rewards, offences, slashes.

In reading order:

slashing            how much an offence costs, and where the money goes
slash_factors       what stake that left still bears
share_pool          grains that many own by shares
exposures           how much stands behind a validator in an era
stakers             the records of TrustStake
delegations         positions behind a validator, and their rewards
staking_events      its events and errors
stake_ledger        its storage, and the verbs that keep the sums true
holdings            positions and what is on its way out, brought up to date
held_slashes        slashes between their proof and their taking
eras                what happens when an era turns
returns             what stake would earn in eras like the last
from_copies         what becomes of stakes that an older program stored
trust_stake         the pallet TrustStake: calls
double_headers      the evidence of two headers in one slot
trust_lock          the pallet TrustLock: locks by case, offences
"""
