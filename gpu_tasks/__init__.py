"""GPU work: the market on chain, the workloads, and the programs of providers and customers.

In reading order:

* `market`: the market on chain, as pallets: devices, continuous inference, execution attestations
* `workloads`: what a unit of inference computes, bit-identical on every backend
* `data`: sealed blobs, addressed by hash, kept off chain
* `provider`: the provider's programs: watch the market, execute units, attest, judge, keep blobs
* `client`: the customer's program `ogpu`: post units and tasks, watch them, fetch results
"""
