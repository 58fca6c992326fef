"""The RPC methods, one file a namespace.

In reading order:

* `chain`: blocks and headers
* `state`: storage, runtime calls, metadata
* `author`: handing in extrinsics, following them
* `system`: which chain and node this is
* `ogpu`: what no Substrate node has
"""
