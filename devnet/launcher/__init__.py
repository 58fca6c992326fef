"""`ogpu-devnet`: a network of many real nodes and providers on one machine."""
