"""The state transition of ogpu, pure and deterministic: the meaning of a block.

From the bottom up. Each room imports only those before it:

* `encoding`: SCALE: values as bytes
* `cryptography`: hashes, signatures, addresses, draws
* `state`: values under storage keys, and the trie over them
* `frame`: the form of pallets and calls, and the runtime that puts pallets together
* `blocks`: headers, digests and extrinsics
* `pallets`: the state transition itself, one pallet a file
* `execution`: a block over its parent's state, step by step
* `interface`: the view of clients: metadata and runtime APIs
"""
