"""Names for people: ready-made chains, and well-known accounts. Separate, so that command-line help loads fast."""

DEV_NAMES = ("Alice", "Bob", "Charlie", "Dave", "Eve", "Ferdie")
CUSTOMER_NAMES = ("Grace", "Heidi")
"""Accounts with money on chains where all others validate: a buyer that neither races nor checks is needed."""
PRESETS = ("dev", "local")
VALIDATORS_MAX = 16
