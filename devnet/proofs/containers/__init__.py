"""Jobs and leases in real containers on a devnet: run, watched, left by either side, paid to the grain.

In reading order:

* `errands`: what customers do in a running container, and in one line
* `__main__`: an engine and a registry of this proof's own; scenes, and what must have become of each
"""
