"""GPU work: the market on chain, the workloads, and the programs of providers and customers."""
