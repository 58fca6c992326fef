"""Every lie, by kind."""

from __future__ import annotations

from typing import Final

from devnet.proofs.liars import delivery, heads, shapes, statuses, stores, values
from devnet.proofs.liars.lie import Lie, Noticed

LIES: Final[dict[str, Lie]] = {
    lie.name: lie
    for kind in (values.LIES, heads.LIES, statuses.LIES, delivery.LIES, shapes.LIES, stores.LIES)
    for lie in kind
}
NAMED_BY_PROOF: Final = tuple(name for name, lie in LIES.items() if lie.noticed is Noticed.BY_PROOF)
"""Lies about plain values. A program that asks for no proof cannot name them: until it does, they are counted as
unnoticed and not as missed; what they may cost is judged like every other lie."""
PROOF_WORDS: Final = ("do not believe", "is another chain", "old: what it shows")
"""What programs say that ask for proofs."""
