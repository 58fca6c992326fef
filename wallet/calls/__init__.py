"""Any call of the chain from a person's text.

In reading order:

* `form`: the interface of every form of an argument, and its refusals
* `plain_forms`: numbers, amounts, accounts, bytes, text, names
* `nested_forms`: options, lists, tuples, structures, unions
* `parameter_form`: a parameter of the chain and a value for it
* `declared`: the form of a declared type, and of calls inside calls
* `directory`: pallets, calls and arguments by name; suggestions for an unknown name
* `node_keys`: the keys of a node, and the proof that they may be registered
* `money`: the amounts that a call sends, locks or burns, if the call names them
"""
