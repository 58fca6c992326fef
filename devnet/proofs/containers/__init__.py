"""Jobs and leases in real containers on a devnet: run, watched, left by either side, paid to the grain.

In reading order:

* `registry`: a container engine, a registry, and an image in it, all of them this proof's own
* `judging`: scenes, and what must have become of each
* `visiting`: what a customer does in its container while it runs
* `errands`: what customers do in one line: a command run, an array, a picture
* `course`: one after the other
"""
