"""A signature checked on arrival is not checked again, and no other signature passes for it."""

from __future__ import annotations

from typing import Any

import pytest

from node.pool.transaction_pool import Held
from node.pool.verifier import Claim
from runtime.cryptography.signatures import Scheme

CHECKED = Claim(Scheme.ED25519, b"signer", b"payload", b"signature")
OTHER = Claim(Scheme.SR25519, b"another", b"another", b"another")


@pytest.mark.parametrize("part", range(len(CHECKED)), ids=CHECKED._fields)
def test_what_differs_in_anything_from_the_checked_claim_is_checked(part: int) -> None:
    asked: list[tuple[object, ...]] = []

    def refuse(*claim: object) -> bool:
        asked.append(claim)
        return False

    extrinsic: Any = None
    verify = Held(extrinsic, CHECKED).verified_or(refuse)
    assert verify(*CHECKED)
    assert not asked
    changed: Any = (*CHECKED[:part], OTHER[part], *CHECKED[part + 1 :])
    assert not verify(*changed)
    assert asked == [changed]
