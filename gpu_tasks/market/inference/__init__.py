"""Continuous inference, mined in matched races: services, units, races, claims, money.

In reading order:

* `services`: the kinds of units on sale, and the prices at which slots offer them
* `rules`: the rules of a unit: a copy of the market's parameters at its post
* `units`: a unit: the customer's terms, the racers, the outcome
* `classes`: the classes of devices that may race for a unit
* `numbers`: the parameters of the market
* `events`: the events and errors of InferenceMarket
* `money`: the recipients of a customer's lock in each outcome
* `storage`: the storage, and reads of services, classes and commit windows
* `schedules`: the schedules of units: by height, by finality, for draws, for dropping records
* `catalogue`: the services on sale, and the devices that offer them with their asks
* `sleepers`: units that no slot can serve now, until a slot of their service is freed or changed
* `checkers_left`: the validators that stay outside a race, to check its result and to vote about it
* `slots`: the slots that a block can draw, read once for a service
* `race_clocks`: the commit clock of each racer
* `race_results`: the winner of a race, and the races without one: rules without money
* `turns`: the next unit of a device: begun when an earlier one ends, or recalled
* `redraws`: new draws for the place of a racer that declined, passed or was recalled
* `settlement`: the end of a unit: one payment of the whole lock, and the release of all holds
* `queue`: from the queue into a race, and back
* `intake`: the post of a unit: checks of its terms, and a lock of its greatest cost
* `unit_claims`: the claims of units: their terms and their outcomes
* `unit_disputes`: differing results and declined inputs before voters
* `race`: a race from its draw to its outcome
* `attested_units`: attestations of units: their conditions and their effect
* `inference`: the pallet InferenceMarket
* `gpu_tasks_api`: queries of providers, customers and explorers about devices, units and duties
"""
