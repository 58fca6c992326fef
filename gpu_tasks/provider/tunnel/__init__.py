"""The provider's end of tunnels: who may enter which container, and what is done there.

In reading order:

* `rooms`: what can be done in one container
* `copying`: archives from a customer, unpacked within limits
* `serving`: one stream of a tunnel, from its wish to its end
* `tunnel_door`: handshakes, and how many tunnels there are
* `program_rooms`: the containers of the daemon's programs
"""
