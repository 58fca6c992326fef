"""Attacks of a client on JSON-RPC.

In reading order:

* `posting`: posting bodies to one node's JSON-RPC, each on a connection of its own
* `parsing`: bodies that cost more to read than to send
* `batches`: one message that asks for more than anybody else then gets
* `aborting`: clients that leave while an answer is on its way to them
* `subscriptions`: WebSockets that ask for more than they read
* `crowds`: many connections of one address, or a few of several, that each ask for little
* `limits`: calls at the limits of what one may ask for
* `origin`: what a web page can make a browser send to a node on its user's machine
"""
