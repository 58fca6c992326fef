"""Accounts without a key that hold the chain's own money: `modl` and a name, as in the SDK."""

RESERVE = b"modlog/rsrve".ljust(32, b"\0")
"""The grains not emitted yet."""
TREASURY = b"modlpy/trsry".ljust(32, b"\0")
"""Governance's money. The name is the SDK's, so explorers know it."""
STAKING_REWARDS = b"modlog/stake".ljust(32, b"\0")
"""Emitted to validators and delegators, and not claimed yet."""
PROVIDER_REWARDS = b"modlog/prvdr".ljust(32, b"\0")
"""Emitted for providers in the current era. The rest returns to the reserve."""
STAKES = b"modlog/bonds".ljust(32, b"\0")
"""Holds the delegated stake. The case is the validator behind which it is."""
