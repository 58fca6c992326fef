"""Headers, digests, blocks and extrinsics, as bytes and as values."""
