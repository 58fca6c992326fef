"""Every lie, by kind."""

from __future__ import annotations

from typing import Final

from devnet.proofs.liars import node_lies, state_lies, stores
from devnet.proofs.liars.lie import Lie, Noticed

_ALL: Final[tuple[Lie, ...]] = (*state_lies.LIES, *node_lies.LIES, *stores.LIES)
LIES: Final[dict[str, Lie]] = {lie.name: lie for lie in _ALL}
UNPROVABLE: Final = tuple(name for name, lie in LIES.items() if lie.noticed is Noticed.UNPROVABLE)
"""Lies about what is not final: the pool, a status on the way. No proof of these exists: they are
counted as unnoticed and not as missed; what they may cost is judged like every other lie."""
PROOF_WORDS: Final = ("do not believe", "is another chain", "old: what it shows")
"""What programs say of a lie that a proof refutes."""
