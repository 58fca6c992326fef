"""Accounts without a key, where money of the chain itself waits: `modl` and a name, as the SDK writes them."""

RESERVE = b"modlog/rsrve".ljust(32, b"\0")
"""What is not emitted yet."""
TREASURY = b"modlpy/trsry".ljust(32, b"\0")
"""Governance's money; the name is the SDK's, so explorers know it."""
STAKING_REWARDS = b"modlog/stake".ljust(32, b"\0")
"""Emitted to validators and delegators, and not claimed yet."""
PROVIDER_REWARDS = b"modlog/prvdr".ljust(32, b"\0")
"""Emitted for providers in the current era; what is left goes back to the reserve."""
STAKES = b"modlog/bonds".ljust(32, b"\0")
"""Holds what is delegated, for the case of the validator that it is behind."""
