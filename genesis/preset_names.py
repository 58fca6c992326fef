"""What people may name: ready-made chains, and accounts that everybody knows; apart, for the help of command lines."""

DEV_NAMES = ("Alice", "Bob", "Charlie", "Dave", "Eve", "Ferdie")
CUSTOMER_NAMES = ("Grace", "Heidi")
"""Who has money where all of the others validate: somebody has to buy who neither races nor judges."""
PRESETS = ("dev", "local")
VALIDATORS_MAX = 16
