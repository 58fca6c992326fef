"""The provider's end of tunnels: who may enter which container, and what is done there.

In reading order:

* `access`: what can be done in one container, by whoever ordered it
* `copies`: archives from a customer, unpacked within limits
* `streams`: one stream of a tunnel, from its wish to its end
* `tunnel_server`: handshakes, and how many tunnels there are
* `program_access`: the containers of the daemon's programs
"""
