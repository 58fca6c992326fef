"""The offers of the market for a customer, for units and for tasks.

In reading order:

* `listing`: services, their offers, device classes, and the machines that providers claim to have
* `outlook`: the spendable money of an account, the eligible bidders for its task, and the auction's parameters
"""
