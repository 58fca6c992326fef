"""Headers, digests, blocks and extrinsics, as bytes and as values.

In reading order:

digest          what consensus writes into a header
block           header and block, their hash and seal
votes           proposals and ballots of the finality gadget, and how they are signed
evidence        two signed statements that no honest validator makes
era             how long a transaction may wait
extrinsic       transactions and inherents on the wire
"""
