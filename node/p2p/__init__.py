"""The peer-to-peer transport: py-libp2p's identities and Noise under our own muxer, frames, admission and redial.

In reading order, from the socket up:

* `identity`: the node key and the peer id
* `channel`: a connection as bytes, then as encrypted records
* `hardening`: what is taken of py-libp2p, and put right in it
* `multistream`: how two ends agree on a protocol
* `yamux`: streams over a connection
* `frames`: kinds of messages, and frames of many of them
* `meter`: rates, as token buckets
* `work`: what reading and serving each peer has cost, against its share
* `connection`: all of these for one peer

What others see of it:

* `hello`: the first message and the last
* `inbox`: what peers have sent, consensus first, in turn by peer
* `transport`: what the node needs of a network
* `gossip`: to whom a new message goes on

A peer's life:

* `admission`: who may take an inbound slot
* `listener`: the listening socket
* `outbox`: what waits for one peer
* `addresses`: where a node is, as text
* `link`: an established connection, served
* `handshake`: from a socket to a peer that was accepted
* `peer_table`: who is connected, who is banned
* `address_book`: where nodes are, and when to try each again
* `discovery`: how nodes learn of each other
* `libp2p_transport`: all of it; listens, dials, keeps one link per peer
"""
