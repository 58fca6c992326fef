"""Blobs that a provider stores, serves, fetches and seals again."""
