"""The default ports of a node, in a file of their own, so that the help of the command line imports little."""

DEFAULT_PORT = 30333
DEFAULT_RPC_PORT = 9944
DEFAULT_PROMETHEUS_PORT = 9615
