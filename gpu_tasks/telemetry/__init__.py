"""What a provider tells of work while it goes on, over a broker that nobody has to trust.

In reading order:

* `notes`: what may be told: of a task, of a device, of the provider itself
* `envelope`: who tells what, in which order: signed, and sealed where it is a customer's business
* `ledger`: what a reader makes of what a broker hands it: new, missing, replayed, forged
* `broker`: a broker's address, and a connection that takes no more from it than it should
"""
