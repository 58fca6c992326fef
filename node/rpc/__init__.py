"""The JSON-RPC process: its own replica of the chain, and every method of the public interface."""
