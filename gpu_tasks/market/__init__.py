"""The market for GPU work, as pallets: devices, continuous inference, execution attestations.

In reading order:

* `ids`: the identifiers of units, devices, tasks and services on the chain
* `weights`: the weights of calls and hooks: generated
* `block_room`: the share of a block's weight that each hook of the market may take
* `due`: the order in which due cases and claims are handled
* `rounds`: the windows in which a drawn group may commit and reveal
* `devices`: GPUs with their owners, bonds and work
* `draws`: the draw of racers: owners drawn by the bond of their free slots
* `claims`: claims of results, their checks by validators, and votes about single items
* `capacity`: roll calls, in which all devices prove their throughput in the same blocks
* `attestations`: execution attestations, and the pallet that puts them into blocks
* `inference`: units, mined in matched races: services, races, claims, disputes, money
* `training`: tasks that are sold by auction: bids, prices, awards, money
* `sessions`: a reserved place at a provider, paid by vouchers
* `budgets`: money that named keys spend within caps, for units and sessions alone
"""
