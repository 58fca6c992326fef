"""Communication between nodes, above the transport: messages, and penalties for misbehaviour.

In reading order:

* `messages`: requests and answers that bring blocks and handoffs to other nodes, in SCALE
* `peers`: messages as frames to peers; a peer with many mistakes is banned
* `peer_proof`: proofs of the session keys behind a peer id
* `network`: this node's identity, transport and peers, put together
"""
