"""Stake and what it answers for: bonds, eras, rewards, offences, slashes.

In reading order:

slashing            how much an offence costs, and where the money goes
slash_factors       what stake that left still bears
share_pool          grains that many own by shares
stakers             the records of TrustStake
delegations         positions behind a validator, and their rewards
staking_events      its events and errors
seats               who sits in which epoch, who was on line, who is in jail: the storage of elections
presence            signs of life: who made a block, whose vote the chain carries
stake_ledger        its storage, and the verbs that keep the sums true
holdings            positions and what is on its way out, brought up to date
held_slashes        slashes between their proof and their taking
elections           who is elected, and what stays answerable
eras                what happens when an era turns
returns             what stake would earn in eras like the last
trust_stake         the pallet TrustStake: calls
double_headers      the evidence of two headers in one slot
offences            who did what, by evidence of headers, proposals and votes
trust_lock          the pallet TrustLock: locks by case, offences
"""
