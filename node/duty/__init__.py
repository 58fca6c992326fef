"""What a validator does: its keys, the record of what it signed, its seat, the blocks that it makes.

In reading order:

* `keystore`: session and VRF keys, in files as Substrate lays them out
* `signstate_file`: what this key has signed, synced before a signature leaves
* `signing_key`: one session key; nothing is signed that is not recorded
* `validator_keys`: all keys of a node, each at work in the epochs in which it sits
* `key_proofs`: that an account may register keys of this node
* `seat`: which keys this node holds, and whether they may sign
* `key_watch`: keys that come while the node runs
* `heart`: a sign of life in each epoch
* `seat_watch`: what is done as sets come and go
* `author`: builds a block in an own slot
* `duty`: all of it, put together
"""
