"""The shell around the core: storage, network, JSON-RPC, and the `ogpu-node` command line."""
