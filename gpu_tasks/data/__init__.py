"""The data plane: sealed blobs, addressed by hash, kept off chain."""
