"""Programs that use this chain with nothing but public client libraries: no import of ours, no type of ours.

Each takes the address of a node, does the same things (reads, asks for a fee, transfers with both kinds of key, watches
inclusion and finality, bonds and delegates, decodes events and a module error, reads at old blocks and at one that is
not there), prints one JSON object for each, and fails where something is not as it should be.

In reading order:

* `steps`: what each Python client does
* `with_substrate_interface`: `substrate-interface`, unmodified, against a development node
* `with_async_substrate_interface`: `async-substrate-interface`, the same
"""
