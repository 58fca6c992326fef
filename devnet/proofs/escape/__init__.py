"""A stranger's container that tries to escape its limits, one way after the other: `make escape`.

In reading order:

* `ground`: private network namespaces: this machine, the world, a cloud's metadata
* `scene`: an engine, a provider's secrets, the execution of programs there, and the definition of an attempt
* `victim`: a provider that is killed
* `limit_attempts`: the attempts to use more than the limits allow
* `attempts`: every attempt, in order
* `__main__`: one attempt after the other, and a check of the provider after each
"""
