"""How the nodes agree on one chain: Snowflake for speed, Simplex for finality; pure.

In reading order, from what is decided about to who decides:

* `parameters`: the named numbers, and what must hold between them
* `validators`: who votes in an epoch, with what weight; who leads which round
* `votes`: proposals and ballots, and how they are signed
* `certificates`: more than two thirds signed one ballot
* `evidence`: two statements that no honest validator makes
* `signstate`: what this validator may still sign
* `wire`: the messages between peers
* `events`: what goes into the machine and what comes out
* `snowflake`: the decision among the children of one block, bit by bit
* `blocktree`: blocks above the final one
* `topological`: Snowflake along that tree; accepted and preferred blocks
* `rounds`: certificates of the gadget by round
* `ballotbox`: votes of the gadget, counted and watched
* `voting`: which checkpoint is proposed, and which deserves a vote
* `proposer`: whose slot it is
* `sampling`: whom a poll asks
* `polls`: who answered, and when a poll has heard enough
* `roundclock`: since when a round has had work
* `gadget`: one epoch of the finality gadget
* `poller`: polls over the tree
* `catchup`: certificates for whoever is behind
* `fetches`: blocks that are missing
* `headers`: which blocks may enter at all
* `authoring`: when to build a block, and on what
* `machine`: all of it together: events in, effects out
"""
