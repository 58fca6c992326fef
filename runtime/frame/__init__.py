"""The form of pallets: storage items, calls, errors, weights, fees, APIs; and pallets bound to a state.

In reading order:

errors           the four ways in which input can be invalid
measured         the form of the tables of measured weights
block_weights    what an empty block weighs, and an extrinsic besides its call: generated
weights          how much a block may hold
fees             what an extrinsic costs
origins          who makes calls, the origins of pallets included, as one value
call             a method that is also a transaction
storage          items of the state, declared as attributes
schedule         what a pallet has to come back to, and the work that a block may spend on it
storage_version  which form a pallet's storage has, and what brings an older one into the form of now
holds            what money is held for: reasons that pallets declare, and cases
parameter        a number in the state, with bounds, unit and reason
relations        what must hold between numbers
parameter_book   all parameters of a runtime together
context          one execution as its pallets see it
pallet           the class that holds all of these
runtime_codecs   the codecs of calls, events, origins and hold reasons of a list of pallets
runtime          pallets put together, and bound to a state
api              typed questions to a state
"""
