"""What a block means: the state transition of ogpu, pure and deterministic.

From the ground up; each room knows only those before it:

encoding        SCALE: how values become bytes
cryptography    hashes, signatures, addresses, draws
state           what is stored under which key, and the trie over it
frame           the form of pallets and calls, and the runtime that puts pallets together
blocks          headers, digests and extrinsics
pallets         the state transition itself, one pallet a file
execution       a block over its parent's state, step by step
interface       what clients see: metadata and runtime APIs
"""
