"""The provider's programs: watch the market, execute units, attest, judge, keep blobs.

In reading order:

* `keys`: the provider key, and the balance that it needs
* `chain`: the node, as these programs see it
* `journal`: what must not be forgotten
* `telemetry`: what a provider tells of its work
* `blobs`: sealed inputs and outputs: stored, served, fetched, sealed again
* `open_files`: how many connections this process may have
* `earnings`: what it has earned
* `execution`: worker processes on this machine's devices
* `utilisation`: what its devices did with their time
* `doctor`: what machine, key and chain lack
* `watching`: what customers may watch, and the broker that it goes to
* `duties`: races, cases, endings: what is done next, and doing it
* `idle_reasons`: why a device stands still; pure
* `device_watch`: why devices stand still, and how long they compute
* `programs`: programs of customers, in containers
* `tunnel`: customers in their containers
* `tasks`: tasks at auction: bids, work, checkpoints
* `told_inventory`: what it says that its machine has and bids for, at its door
* `daemon`: what runs until it is stopped: from a block to what it asks for
* `registration`: the calls that make a stash a provider, and that end it
* `commands`: each command
* `cli`: `ogpu-provider`, and the options before its commands
"""
