"""The peer-to-peer transport: py-libp2p's identities and Noise under our own muxer, frames, admission and redial.

What others see of it:
* `transport`: what the node needs of a network
* `frames`: kinds of messages, and frames of many of them
* `work`: what serving each peer has cost, against its share
* `inbox`: what peers have sent, consensus first, in turn by peer
* `gossip`: to whom a new message goes on

From the socket up:
* `listening`: the listening socket
* `admission`: who may take an inbound slot
* `channel`: a connection as bytes, then as encrypted records
* `identity`: the node key and the peer id
* `hardening`: what is taken of py-libp2p, and put right in it
* `multistream`: how two ends agree on a protocol
* `yamux`: streams over a connection
* `connection`: all of these for one peer

A peer's life:
* `hello`: the first message and the last
* `handshake`: from a socket to a peer that was accepted
* `meter`: rates, as token buckets
* `outbox`: what waits for one peer
* `link`: an established connection, served
* `peer_table`: who is connected, who is banned
* `addresses`: where a node is, as text
* `address_book`: where nodes are, and when to try each again
* `discovery`: how nodes learn of each other
* `libp2p_transport`: all of it; listens, dials, keeps one link per peer
"""
