"""Jobs and leases in real containers on a devnet: run, watched, left by either side, paid to the grain.

In reading order:

* `errands`: customers' actions in a running container, and one-line purchases
* `__main__`: a private engine and registry; scenes, and the required outcome of each
"""
