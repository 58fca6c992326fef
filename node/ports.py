"""Where a node listens when nobody says otherwise; apart, so that the help of the command line needs nothing else."""

DEFAULT_PORT = 30333
DEFAULT_RPC_PORT = 9944
DEFAULT_PROMETHEUS_PORT = 9615
