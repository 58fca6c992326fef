"""The provider's end of tunnels: access for customers to their containers and sessions.

In reading order:

* `access`: the targets of tunnels, and the operations of a customer on its container
* `copies`: archives from a customer, unpacked within limits
* `streams`: one stream of a tunnel, from its request to its end
* `tunnel_server`: handshakes, and the limits on open tunnels
* `program_access`: the containers of the daemon's programs
"""
