"""The market for GPU work, as pallets: devices, continuous inference, execution attestations.

In reading order:

* `ids`: what things of the market are called on the chain
* `weights`: what calls and hooks weigh: generated
* `block_room`: what hooks leave of a block for those that come after them
* `rounds`: when a drawn group may commit and when it may reveal
* `devices`: who owns which GPU, what it is bonded with, what it works on
* `draws`: who races: owners drawn by the bond of their free slots
* `capacity`: roll calls: what devices prove to compute, all in the same blocks
* `courts`: judges for cases of any pallet, audits, appeals
* `leaf_checks`: drawn leaves of every batch that is settled, looked at by an auditor
* `leaf_disputes`: batches whose racers differ: both sides show their trees, and one leaf is judged
* `attestations`: execution attestations, and the pallet that puts them into blocks
* `inference`: units, mined in matched races: services, races, cases, money
* `training`: tasks that go to auction: whom they are given to, for how much, who gets what
"""
