"""Continuous inference, mined in matched races: services, units, races, what the courts are asked, money.

In reading order:

* `services`: what may be bought as units, and at which prices slots offer it
* `rules`: what a unit goes by: the numbers of the market as they were when it was posted
* `units`: a unit: what the customer asked, who races for it, how it ended
* `classes`: which classes of devices may race for a unit
* `numbers`: the numbers of the market that a chain may change
* `events`: what InferenceMarket tells the world, and why a call of it can fail
* `money`: who gets which part of what a unit's customer locked
* `storage`: storage, and what is read of it: services, classes, commit windows
* `schedules`: when a unit needs the chain's attention, and when its record goes
* `catalogue`: which services are sold, and which devices work for them from which price on
* `sleeping`: units that nobody can serve, and what wakes them
* `judges_left`: who of those in office stays outside a race, to judge what comes of it
* `slots`: the slots that a block can draw, read once for a service
* `race_clocks`: how long each racer has, by a clock of its own
* `race_results`: who wins a race, and when nobody may: the rules, nothing about money
* `turns`: whose turn it is on a device: what ends lets the next unit begin
* `redraws`: a place of a race that was declined, or whose racer was recalled, is drawn again
* `settlement`: how a unit ends: one payment of all that was locked, and all that it held set free
* `queue`: from the queue into a race, and back
* `intake`: how a unit begins: what is asked is checked, and all that it can ever cost is locked
* `judging`: the cases of units: what is brought before the courts, and what comes of it
* `race`: a race from its draw to its outcome
* `attested_units`: attestations of units: the conditions for one, and what attaching it does
* `inference`: the pallet InferenceMarket
* `gpu_tasks_api`: what providers, customers and explorers ask about devices, services, units and duties
"""
