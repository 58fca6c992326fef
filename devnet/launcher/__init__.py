"""`ogpu-devnet`: a network of many real nodes and providers on one machine.

In reading order:

* `folder`, `free_ports`: the folder of a devnet, and its errors; ports that stay free
* `broker`: Mosquitto, where it is installed
* `layout`: the nodes, their ports, files and commands; `devnet.json`
* `processes`: start, watch, kill and end real processes
* `dockerd`: a private container engine
* `made_images`: images of a few files for it
* `status`: the heights, peers and stake of the nodes
* `lifecycle`: the devnet up, ready and down as a whole
* `programs`: `ogpu-wallet`, `ogpu-provider` and `ogpu`, run as users run them
* `commands`, `cli`: the command line
"""
