"""Answers without trust: with a chain's genesis hash, a client checks a node's statements about its final state.

The genesis hash commits to the first validators. They certify final headers, a header commits to the state after it,
and a proof leads from there to values. No code here trusts a node.

In reading order:

* `refutation`: a false statement of a node, as one sentence
* `finality`: from the genesis hash to the set of an epoch, from the set to a final header (pure)
* `inclusion`: the place of an extrinsic in a block (pure)
* `json_forms`: headers, bytes and proofs from a node's JSON (pure)
* `pins`: the chain of a folder, fixed at its first use
* `trusting`: the time for which a folder's knowledge of its chain is good
* `keys`: storage keys and names of items (pure)
* `view`: typed reads over proofs, at one final block
* `sets_file`: the sets that a folder has followed
* `sets`: the active set of an epoch, by the handoffs that a node shows
* `chain`: a connection's final blocks, and the events of an extrinsic in one
"""
