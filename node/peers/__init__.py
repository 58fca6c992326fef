"""Nodes among each other, above the transport: what they say, and what becomes of those who misbehave.

In reading order:

* `messages`: what is asked and answered to bring blocks to whoever lacks them, in SCALE
* `peers`: who is told what as which kind of frame; mistakes are counted, and who makes many is banned
* `peer_proof`: which session key stands behind a peer id
* `network`: this node's identity, transport and peers, put together
"""
