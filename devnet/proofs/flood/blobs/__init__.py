"""Attacks on a provider's blob store."""
