"""Everything that somebody may try about a training task, on a live devnet of five: refused, bounded or slashed.

In reading order:

* `network`: the devnet, its windows, who bids, who cheats
* `orders`: the task of a scene, and its right run
* `scenes`: what is tried, by whom, and what has to come of it
* `strangers`: what cheats do by transactions alone: a copied bid, one that is never opened, a stolen fraud proof
* `judging`: what must have become of a cheat and of everybody else
* `honest`: many tasks about which nobody cheats
* `course`: one scene after the other
"""
