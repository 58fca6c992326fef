"""Attacks of an authenticated stranger on the peer-to-peer port.

In reading order:

* `intruder`: a stranger that has passed the handshake
* `addresses`: false addresses of honest peers
* `validators`: who may have the slots that are kept for validators, and what a handshake costs
* `requests`: requests and statements within the protocol, many more than any honest peer makes
* `records`: encrypted records, and what the muxer finds in them
* `polls`: questions without end, answers that nobody asked for, and blocks that nobody has
* `votes`: votes and certificates that cost a node more than their sender
* `gossip`: heartbeats and evidence that nobody signed
* `blocks`: blocks that cost more to look at than to make
* `answers`: answers that were asked for, and are made up
* `transactions`: transactions that are refused only after much work, or leave memory behind
* `pool`: places in the pool that nobody pays for
"""
