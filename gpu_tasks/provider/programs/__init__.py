"""Programs of customers, run in containers for the time that they bought.

In reading order:

* `means`: what this provider lets programs use, and where its container engine keeps what it needs
* `requests`: from a task on the chain to the request that its hash names; why a program is not run here
* `image_parts`: the archive of an image, fetched part by part
* `container_access`: what is done in a container that runs
* `supervisor`: the programs of one daemon: made ready, begun, stopped, removed
* `results`: what a program leaves: lines told while it runs, outputs sealed to its customer, the record of its use
"""
