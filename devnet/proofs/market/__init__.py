"""`make market`: what four providers on a real devnet compute and earn.

In reading order:

* `processes`: the processes of a network and all that they started; devices of a known speed
* `__main__`: units of each size, a slowed provider beside a free one, and the bars
"""
