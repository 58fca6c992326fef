"""Many byte streams over one connection, without I/O.

* `yamux`: streams with windows: bytes in, events and bytes out
"""
