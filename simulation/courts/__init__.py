"""Coalitions before the courts: cases as training tasks bring them, with providers and judges that appeal.

In reading order:

* `network`: validators with a coalition among them, a provider and a customer outside of the active set
* `habits`: the behaviours of coalitions, and of honest parties and judges
* `chances`: proposers that choose between two beacons
* `season`: one case from its opening until no hold remains
* `results`: gains over honest behaviour, and losses of honest parties
"""
