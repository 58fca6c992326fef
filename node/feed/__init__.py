"""The node's stream to the RPC process over a Unix socket, and the requests that come back.

In reading order:

* `messages`: the frames of both directions, as bytes and as values; no I/O
* `readers`: the connected readers of the feed, and each one's queue
* `view`: the parts of the node that the feed shows
* `stream`: the node's news: the state for a new reader, then every block and status, and statuses of extrinsics
* `answers`: the node's answers to requests: submissions, proofs, old blocks, figures of the node
* `server`: the node's end of the socket (trio)
* `feed`: the node's end, put together
* `client`: the RPC process's end of the socket (asyncio)
"""
