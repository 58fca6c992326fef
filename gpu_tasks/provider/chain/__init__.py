"""The chain as the daemon sees it: the port it needs, and the live one behind RPC."""
