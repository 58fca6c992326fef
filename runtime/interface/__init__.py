"""What clients see of the runtime: metadata, and the runtime APIs that answer `state_call`."""
