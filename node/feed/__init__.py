"""What the node streams to the RPC process over a Unix socket, and what that asks back.

In reading order:

* `messages`: the frames of both directions, as bytes and as values; no I/O
* `readers`: who follows the feed at this moment, and what is queued for each
* `view`: the parts of the node that the feed shows
* `stream`: the node's news: the state when a reader connects, then every block, status and fate of an extrinsic
* `answers`: the node's answers to requests: submissions, proofs, old blocks, a look inside
* `server`: the node's end of the socket (trio)
* `feed`: the node's end, put together
* `client`: the RPC process's end of the socket (asyncio)
"""
