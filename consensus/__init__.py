"""Agreement of the nodes on one chain: Snowflake accepts blocks fast, Simplex makes them final. Pure code, no I/O.

In reading order, from the numbers to the machine:

* `parameters`: the named numbers, and the rules between them
* `validators`: the voters of an epoch, their weights, and the leaders of its rounds
* `sets`: the known sets of all epochs, each written once
* `certificates`: the signatures of more than two thirds of the stake on one ballot
* `signstate`: the signing rules of a validator
* `wire`: the messages between peers
* `events`: the machine's input and output
* `blocktree`: blocks above the final one
* `neighbours`: the connected peers, and the voters among them
* `polling`: Snowflake, the soft and fast layer
* `finality`: the Simplex gadget, the final layer
* `fetches`: requests for missing blocks
* `headers`: the rules that admit a block before its execution
* `handoffs`: the proof of the next set, signed by the current one
* `machine`: all parts together: events in, effects out
"""
