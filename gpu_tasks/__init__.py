"""GPU work: the market on chain, the workloads, and the programs of providers and customers.

In reading order:

* `traces`: the root over the states of a run in segments, and the form of a proof that it is wrong
* `batches`: many requests in one unit: their outcomes, the tree over them, which of its leaves are looked at
* `market`: the market on chain, as pallets: devices, continuous inference, execution attestations
* `workloads`: what a unit or a task computes, bit-identical on every backend
* `data`: sealed blobs, addressed by hash, kept off chain
* `tunnel`: the encrypted way from a customer to its container
* `telemetry`: what is told of work while it goes on, over a broker that nobody trusts
* `tasks`: what customers ask for: task files, read strictly, and what they come to
* `provider`: the provider's programs: watch the market, execute units, attest, judge, keep blobs
* `client`: the customer's program `ogpu`: post units and tasks, watch them, fetch results
"""
