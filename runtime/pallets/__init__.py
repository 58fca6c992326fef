"""The modules of the state transition, one pallet a file."""
