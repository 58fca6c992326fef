"""Snowflake: soft agreement by asking for preferences.

In reading order:

* `snowflake`: the decision among the children of one block, bit by bit
* `topological`: Snowflake along the tree of blocks; accepted and preferred blocks
* `sampling`: whom a poll asks
* `polls`: who answered, and when a poll has heard enough
* `poller`: polls over the tree
"""
