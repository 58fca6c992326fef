"""Snowflake: soft agreement by polls about preferences.

In reading order:

* `snowflake`: the decision among the children of one block, bit by bit
* `topological`: Snowflake along the tree of blocks; accepted and preferred blocks
* `sampling`: the validators that a poll asks
* `polls`: the answers to open polls, and the end of each poll
* `poller`: polls over the tree
"""
