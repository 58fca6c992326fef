"""The RPC methods, one file a namespace."""
