"""The peer-to-peer transport: py-libp2p's identities and Noise under our own muxer, frames, admission and redial.

In reading order, from the socket up:

* `identity`: the node key and the peer id
* `channel`: a connection as bytes, then as encrypted records
* `hardening`: the used parts of py-libp2p, and corrections of them
* `multistream`: the agreement of two ends on a protocol
* `frames`: kinds of messages, and frames of many messages
* `meter`: rates, as token buckets
* `work`: the CPU cost of reading and serving each peer, against its share
* `connection`: the layers above, for one peer

The interface to other rooms:

* `hello`: the first message and the last
* `inbox`: messages from peers, consensus first, in turn by peer
* `transport`: the network interface of the node
* `gossip`: the choice of peers for a new message

A peer's life:

* `admission`: the limits of inbound connections
* `listener`: the listening socket
* `outbox`: the messages that wait for one peer
* `addresses`: addresses of nodes as text
* `link`: an established connection, served
* `handshake`: the way from a socket to an accepted peer
* `peer_table`: the connected and the banned peers
* `address_book`: addresses of peers, and the time of the next dial
* `discovery`: the exchange of addresses between nodes
* `libp2p_transport`: the transport: it listens, dials, and keeps one link per peer
"""
