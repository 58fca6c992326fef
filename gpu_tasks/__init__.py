"""GPU work: the market on chain, the workloads, and the programs of providers and customers.

In reading order:

* `traces`: the root over the states of a run in segments, and the form of a proof that it is wrong
* `batches`: many requests in one unit: their outcomes, the tree over them, and the draw of leaves to check
* `models`: real models: their files, other people's formats, their text
* `market`: the market on chain, as pallets: devices, continuous inference, execution attestations
* `workloads`: the computations of units and tasks, bit-identical on every backend
* `data`: sealed blobs, addressed by hash, kept off chain
* `tunnel`: the encrypted connection from a customer to its container or session
* `sessions`: one session between a customer and a provider: messages, transcript, payments
* `telemetry`: progress reports of running work, over an untrusted broker
* `tasks`: task files: strict parsing, and the orders that they become
* `provider`: the provider's programs: watch the market, execute units, attest, check, keep blobs
* `client`: the customer's program `ogpu`: post units and tasks, watch them, fetch results
"""
