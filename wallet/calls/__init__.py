"""Any call of the chain from what a person types.

In reading order:

* `form`: what every form of an argument can do, and how it refuses
* `plain_forms`: numbers, amounts, accounts, bytes, text, names
* `nested_forms`: options, lists, tuples, structures, unions
* `parameter_form`: a parameter of the chain and a value for it
* `declared`: the form of a declared type, and of calls inside calls
* `directory`: pallets, calls and arguments by name; what is meant by a name that is not there
* `node_keys`: the keys of a node, and the proof that they may be registered
* `money`: what a call sends, locks or burns, where that stands in the call
"""
