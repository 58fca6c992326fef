"""Customers' programs, run in containers for the time that the customers bought.

In reading order:

* `means`: the resources and permissions that this provider gives to programs
* `requests`: the request of a task on the chain, and the reasons to refuse it
* `image_parts`: an image archive, fetched part by part
* `container_access`: operations inside a running container
* `supervisor`: the programs of one daemon: prepared, started, stopped, removed
* `results`: a program's lines, its sealed outputs, and the record of its use
"""
