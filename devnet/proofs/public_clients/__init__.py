"""Programs that use this chain with public client libraries alone, without any module of this project.

Each takes the address of a node and does the same steps. It reads, estimates a fee, transfers with both kinds of key,
and watches inclusion and finality. It bonds and delegates, decodes events and a module error, and reads at an old block
and at an unknown one. It prints one JSON object per step, and fails at the first wrong result.

In reading order:

* `steps`: the steps of each Python client
* `with_substrate_interface`: `substrate-interface`, unmodified, against a development node
* `with_async_substrate_interface`: `async-substrate-interface`, the same
"""
