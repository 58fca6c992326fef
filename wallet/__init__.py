"""Keys, accounts and the RPC client, for any program that acts for an account.

In reading order:

* `errors`: errors that a person can correct
* `suggestions`: the name that a mistyped word resembles
* `amounts`: oGPU and grains
* `keypair`, `mnemonic`, `suri`: a key, its recovery phrase, its secret as text
* `keyfile`, `private_file`, `keyring`: locked keys on disk, by name
* `password_file`: passwords for them, from files
* `trust`: a node's address, and the proofs that a program requires of it
* `rpc`: JSON-RPC over one connection
* `proved`: a node's statements about the final state, checked without trust
* `answers`: a node's answers as values
* `client`: typed reads, signed calls, and their outcomes
* `verified`: a client that accepts only proved statements of its node
* `calls`: any call from a person's text
* `outbox`: what this user's programs sent or promised, on the disk before it is sent
* `submission`: signed extrinsics are sent once
* `refusals`: reasons for which the chain refuses a call, with the missing number
* `trial`: dry runs of calls, without sending them
"""
