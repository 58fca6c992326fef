"""The customer's end of tunnels.

In reading order:

* `connection`: from a task to an open tunnel
* `terminal`: a program in the container, on this terminal or on pipes
* `copies`: files there and back
"""
