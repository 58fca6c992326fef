"""Which chain this is: the one list of pallets, the parameters, the chain specification.

In reading order:

preset_names    what people may name: ready-made chains, known accounts
parameters      the two sets of numbers that a chain may run by
relations       what must hold between numbers
spec            the chain specification as a file
patch_form      what it may say about each pallet
chain           the list of pallets, and block 0
dev_accounts    Alice to Ferdie
presets         ready-made chains for development
"""
