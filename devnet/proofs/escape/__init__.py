"""A stranger's container that tries to leave its limits, one way after the other: `make escape`.

In reading order:

* `ground`: a private piece of network: this machine, the world, a cloud's metadata
* `scene`: an engine, a provider's secrets, how a program is run there, and what an attempt is
* `victim`: a provider that is killed
* `attempts`: every attempt, in order
* `__main__`: one attempt after the other, and whether the provider is unharmed after each
"""
