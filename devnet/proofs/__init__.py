"""The proofs behind the make targets: attacks and failures on live devnets, judged.

In reading order:

* `work`: honest units, with a provider killed midway
* `cheats`: every known way to cheat the market; `cheat_judgement` says from the chain what became of each
* `equivocation`: a validator proposes twice
* `crash`: kill -9 under load
* `clients`: unmodified public clients; their programs are in `public_clients`
* `cheating`: the providers and the node that cheat
"""
