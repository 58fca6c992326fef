"""The form of pallets: storage items, calls, errors, weights, fees, APIs; and pallets bound to a state.

In reading order:

* `errors`: the four kinds of invalid input
* `measured`: the form of the tables of measured weights
* `block_weights`: the weights of an empty block, and of an extrinsic without its call: generated
* `weights`: the limits of a block
* `fees`: the fee of an extrinsic
* `origins`: the senders of calls, pallets' origins included, as one value
* `call`: a method that is also a transaction
* `storage`: items of the state, declared as attributes
* `schedule`: items that wait for a height, and the work on them in one block
* `storage_version`: the version of a pallet's storage, and its migrations
* `holds`: the reasons and cases for which money is held
* `parameter`: a number in the state, with bounds, unit and reason
* `relations`: inequalities between numbers
* `parameter_book`: all parameters of a runtime together
* `context`: the environment of one execution
* `pallet`: the class that declares all of these
* `runtime_codecs`: the codecs of calls, events, origins and hold reasons of a list of pallets
* `runtime`: pallets in a list, and bound to a state
* `api`: typed queries of a state
"""
