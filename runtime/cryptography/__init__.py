"""Hashes, signatures, the VRF, draws, addresses: one function for each rule."""
