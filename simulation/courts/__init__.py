"""Coalitions before the courts: units of the real market, before the real courts, with daemons that appeal.

In reading order:

* `network`: validators with a coalition among them, a Sybil beside them, one service with one price
* `habits`: the behaviours of coalitions, and of honest parties and judges
* `chances`: the beacon: the played side of the audit's coin, and proposers that choose
* `season`: one unit's life from its post until no hold remains
* `results`: gains and losses, unit by unit, with audited and unaudited lives weighted by their chances
"""
