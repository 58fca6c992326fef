"""Coalitions before the courts: units of the real market, before the real courts, with daemons that appeal.

In reading order:

* `network`: validators with a coalition among them, a Sybil beside them, one service of one price
* `habits`: what coalitions do, and what honest parties and judges do
* `chances`: the beacon: which side of the audit's coin is played, and proposers who choose
* `season`: one unit's life from its post until nobody stands for anything any more
* `results`: who gained what, unit by unit; each that may be audited counts both ways, as likely as they are
"""
