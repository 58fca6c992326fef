"""What the node streams to the RPC process over a Unix socket, and what that asks back."""
