"""How the nodes agree on one chain: Snowflake for speed, Simplex for finality; pure.

In reading order, from what is decided about to who decides:

* `parameters`: the named numbers, and what must hold between them
* `validators`: who votes in an epoch, with what weight; who leads which round
* `sets`: the sets of all epochs that are known, each written once
* `certificates`: more than two thirds signed one ballot
* `signstate`: what this validator may still sign
* `wire`: the messages between peers
* `events`: what goes into the machine and what comes out
* `blocktree`: blocks above the final one
* `neighbours`: who is connected, and who of them votes
* `polling`: Snowflake, the soft and fast layer
* `finality`: the Simplex gadget, the final layer
* `fetches`: blocks that are missing
* `headers`: which blocks may enter at all
* `handoffs`: from one set to the next, proved by those who sit
* `machine`: all of it together: events in, effects out
"""
