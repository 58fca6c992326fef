"""`ogpu-devnet`: a network of many real nodes and providers on one machine.

In reading order:

* `folder`, `free_ports`: what goes wrong, in words; where a devnet lies; ports that stay free
* `broker`: Mosquitto, where it is installed
* `layout`: which nodes there are, their ports, files and commands; `devnet.json`
* `processes`: start, watch, kill and end real processes
* `dockerd`: a container engine of one's own
* `made_images`: images of a few files for it
* `status`: where the nodes stand
* `lifecycle`: the devnet up, ready and down as a whole
* `programs`: `ogpu-wallet`, `ogpu-provider` and `ogpu`, run as people run them
* `commands`, `cli`: the command line
"""
