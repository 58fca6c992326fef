"""Keys, accounts, the RPC client and the `ogpu-wallet` command line.

In reading order:

* `errors`: what a person can set right
* `amounts`: oGPU and grains
* `keypair`, `mnemonic`, `suri`: a key, its recovery phrase, its secret as text
* `keyfile`, `private_file`, `keyring`: locked keys on disk, by name
* `rpc`: JSON-RPC over one connection
* `proved`: what a node says of the final state, checked without trust
* `client`: typed reads, signed calls, and what became of them
* `trust`: what a program goes by when it meets a node
* `verified`: a client that believes its node only what it can check
* `calls`: any call from what a person types
* `output`: tables, or JSON
* `session`: what every command shares
* `commands`, `cli`: the command line
"""
