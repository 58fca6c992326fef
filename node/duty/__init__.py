"""What a validator does: its keys, the record of what it signed, its seat, the blocks that it makes.

In reading order:

* `keystore`: session and VRF keys, in files as Substrate lays them out
* `signstate_file`: what this key has signed, synced before a signature leaves
* `validator_keys`: the keys at work; nothing is signed that is not recorded
* `seat`: which validator this node is, if it is one
* `author`: builds a block in an own slot
* `duty`: keys and author of one seat, put together
"""
