"""Offers as a customer reads them, of units and of tasks.

In reading order:

* `listing`: services, their offers, device classes, and the machines that providers claim to have
* `outlook`: what an account can spend, who could bid for its task, and the numbers of the auction
"""
