"""The customer's end of tunnels.

In reading order:

* `connecting`: from a task to an open tunnel
* `terminal`: a program in the container, on this terminal or on pipes
* `copying`: files there and back
"""
