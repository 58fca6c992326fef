"""What people may name: ready-made chains, and accounts that everybody knows; apart, for the help of command lines."""

DEV_NAMES = ("Alice", "Bob", "Charlie", "Dave", "Eve", "Ferdie")
PRESETS = ("dev", "local")
VALIDATORS_MAX = 16
