"""Execution attestations: their form, and the pallet that puts them into blocks."""
