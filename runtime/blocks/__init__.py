"""Headers, digests, blocks and extrinsics, as bytes and as values.

In reading order:

* `digest`: the consensus items in a header
* `block`: header and block, their hash and seal
* `votes`: proposals and ballots of the finality gadget, and their signed bytes
* `evidence`: two signed statements that no honest validator makes
* `era`: the lifetime of a transaction
* `extrinsic`: transactions and inherents on the wire
"""
