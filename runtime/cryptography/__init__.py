"""Hashes, signatures, the VRF, draws, trees, addresses: one function for each rule.

In reading order:

* `hashing`: BLAKE2b, and the hashers of storage keys
* `signatures`: the rules for valid signatures, in this place alone
* `signing`: messages signed outside extrinsics
* `vrf`: randomness with a proof, for the beacon
* `draw`: weighted draws that every node repeats
* `merkle`: a list under one root, and paths of its members
* `ss58`: accounts as people read them
"""
