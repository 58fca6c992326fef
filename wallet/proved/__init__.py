"""Answers that need no trust: whoever holds a chain's genesis hash checks what a node says of its final state.

The genesis hash commits to the first validators, they certify final headers, a header commits to the state after it,
and a proof leads from there to values. Nothing here believes a node.

In reading order:

* `refutation`: what a node said is not so, in one sentence
* `finality`: from the genesis hash to the set of an epoch, from the set to a final header (pure)
* `inclusion`: which place an extrinsic has in a block (pure)
* `json_forms`: headers, bytes and proofs out of a node's JSON (pure)
* `pins`: the chain of a folder, held to from its first use on
* `trusting`: how long a folder's knowledge of its chain is good for
* `keys`: storage keys and names of items (pure)
* `view`: typed reads over proofs, at one final block
* `sets_file`: the sets that a folder has followed
* `sets`: who sits in an epoch, by the handoffs that a node shows
* `chain`: a connection's final blocks, and what an extrinsic did there
"""
