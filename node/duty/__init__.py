"""A validator's duties: its keys, the record of its signatures, its seat, its blocks.

In reading order:

* `keystore`: session and VRF keys, in files with Substrate's layout
* `signstate_file`: the signatures of one key, synced to disk before a signature leaves
* `signing_key`: one session key, which records each message before it signs it
* `validator_keys`: all keys of a node, and the key that signs in each epoch
* `key_proofs`: proofs with which an account registers keys of this node
* `seat`: the keys that this node holds, and whether they may sign
* `key_watch`: keys that are added while the node runs
* `heart`: a heartbeat in each epoch
* `seat_watch`: the start of sign-states, and log lines about seats
* `author`: the building of a block in an own slot
* `duty`: the parts above, put together
"""
