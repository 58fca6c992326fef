"""Every lie about a whole batch, once each on a live devnet: what is drawn is found, and who lied loses as it is said.

In reading order:

* `scenes`: what is tried
* `traces`: what final blocks say of one batch that is checked
* `facts`: what was right, what was told, and what the beacon drew of it
* `money`: what may have moved when a check has ended, grain by grain
* `judging`: what must have come of a batch, reckoned from what is right
* `network`: the devnet, who races, who cheats how
* `customer`: posts batches, and disputes leaves, rightly or not
* `course`: all scenes, several at once
"""
