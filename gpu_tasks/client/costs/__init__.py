"""What units cost: before anything is sent, and as their records and blocks say it later.

In reading order:

* `spent`: what was locked for a unit, what it cost, what came back
* `estimates`: what posting comes to: tokens, prices, cost, and when it may be over
* `clearing`: prices that recent tasks cleared at, and what a task is expected to cost by them
"""
