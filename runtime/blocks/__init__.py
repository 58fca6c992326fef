"""Headers, digests, blocks and extrinsics, as bytes and as values.

In reading order:

digest          what consensus writes into a header
block           header and block, their hash and seal
era             how long a transaction may wait
extrinsic       transactions and inherents on the wire
"""
