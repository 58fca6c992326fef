"""Keys, accounts, the RPC client and the `ogpu-wallet` command line."""
