"""Keys, accounts and the RPC client: what any program needs that acts for an account.

In reading order:

* `errors`: what a person can set right
* `amounts`: oGPU and grains
* `keypair`, `mnemonic`, `suri`: a key, its recovery phrase, its secret as text
* `keyfile`, `private_file`, `keyring`: locked keys on disk, by name
* `password_file`: the passwords that open them, from files
* `trust`: a node's address, and the proofs that a program asks of it
* `rpc`: JSON-RPC over one connection
* `proved`: what a node says of the final state, checked without trust
* `answers`: what a node answers, as values
* `client`: typed reads, signed calls, and what became of them
* `verified`: a client that believes its node only what it can check
* `calls`: any call from what a person types
* `sent_notes`, `submission`: what was signed is written down before it is sent, and sent once
* `refusals`: why the chain refuses a call, with the number that is missing
* `trial`: what the chain would say to calls that are not sent
"""
