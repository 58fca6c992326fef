"""The form of pallets: storage items, calls, errors, weights, fees, APIs; and pallets bound to a state."""
