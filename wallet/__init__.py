"""Keys, accounts, the RPC client and the `ogpu-wallet` command line.

In reading order:

* `deferred`, `program_options`: what a command line says by itself, and imports when it is called
* `errors`: what a person can set right
* `complaints`: what is said on standard error, for people or for programs
* `amounts`: oGPU and grains
* `keypair`, `mnemonic`, `suri`: a key, its recovery phrase, its secret as text
* `prompts`: questions to whoever sits at the terminal
* `keyfile`, `private_file`, `keyring`: locked keys on disk, by name
* `password_file`: the passwords that open them, from files
* `rpc`: JSON-RPC over one connection
* `proved`: what a node says of the final state, checked without trust
* `answers`: what a node answers, as values
* `client`: typed reads, signed calls, and what became of them
* `trust`: what a program goes by when it meets a node
* `verified`: a client that believes its node only what it can check
* `calls`: any call from what a person types
* `sent_notes`, `submission`: what was signed is written down before it is sent, and sent once
* `refusals`: why the chain refuses a call, with the number that is missing
* `trial`: what the chain would say to calls that are not sent
* `tables`, `output`: tables that fit where they are shown, or JSON
* `session`: what every command shares
* `commands`, `cli`: the command line
"""
