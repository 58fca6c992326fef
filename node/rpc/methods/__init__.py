"""The RPC methods, one file a namespace.

In reading order:

* `chain`: blocks and headers
* `state`: storage, runtime calls, metadata
* `author`: submission of extrinsics, and their statuses
* `system`: the chain and the node
* `ogpu`: methods that no Substrate node has
"""
