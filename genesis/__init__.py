"""The definition of a chain: the list of pallets, the parameters, the chain specification.

In reading order:

* `preset_names`: names for people: ready-made chains, known accounts
* `parameters`: the sets of numbers that a chain may use
* `relations`: the inequalities between numbers
* `spec`: the chain specification as a file
* `patch_form`: the allowed fields for each pallet
* `chain`: the list of pallets, and block 0
* `dev_accounts`: Alice to Ferdie
* `presets`: ready-made chains for development
"""
