"""Offers as a customer reads them, of units and of tasks.

In reading order:

* `listing`: services, their offers, device classes, and the machines that providers claim to have
* `outlook`: the providers that could bid for a task, and the numbers of its auction
"""
