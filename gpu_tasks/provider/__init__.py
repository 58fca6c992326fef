"""The provider's programs: watch the market, execute units and tasks, attest, check, vote and keep blobs.

In reading order:

* `keys`: the provider key and its minimum balance
* `chain`: the node, as these programs see it
* `journal`: records that must survive a restart
* `telemetry`: events of the provider's own work
* `blobs`: sealed inputs and outputs: stored, served, fetched, sealed again
* `open_files`: the limit on this process's connections
* `earnings`: the provider's earnings
* `execution`: worker processes on this machine's devices
* `utilisation`: the devices' use of their time
* `doctor`: problems of machine, key and chain
* `watching`: notes that customers watch, and the connection to their broker
* `duties`: races, cases and endings: next steps, and their execution
* `idle_reasons`: reasons for idle devices; pure
* `device_watch`: idle reasons and computing times of the devices
* `programs`: programs of customers, in containers
* `tunnel`: customers' access to their containers
* `sessions`: sessions: answers, vouchers, claims
* `tasks`: tasks at auction: bids, work, checkpoints
* `told_inventory`: the inventory and policy that its endpoint serves
* `daemon`: the daemon: the duties of each block
* `registration`: the calls that make a stash a provider, and end that
* `commands`: each command
* `cli`: `ogpu-provider`, and the options before its commands
"""
