"""Random chains, and what always holds of them."""
