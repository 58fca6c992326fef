"""SCALE from type annotations, the primitive types, and their description for metadata.

In reading order:

* `scale`: the bytes of each shape: integers, lists, options, unions
* `type_info`: the shape of a type in metadata
* `marks`: the declaration of an encoding: `Bounded`, `Compact`, `@struct`, `@variant`
* `struct_codec`: structs, written out as source because a loop over fields is slow
* `codec`: from a declaration to its codec
* `types`: the chain's vocabulary: accounts, balances, weights, origins
"""
