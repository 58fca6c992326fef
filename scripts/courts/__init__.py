"""Coalitions before the courts: units of work with two racers, over the real pallet, with honest daemons that appeal.

In reading order:

* `units`: the handler: what the customer pays, what racers hold, what follows a verdict
* `habits`: what coalitions do, and what honest parties and judges do
* `season`: one network and one habit for many units, and who gained what
"""
