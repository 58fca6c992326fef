"""The remembering verifier, with real worker processes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import trio

from node.pool.verifier import Claim, Verifier
from runtime.cryptography import signatures
from runtime.cryptography.signatures import Scheme

SEED = bytes(range(32))


def claim(number: int, *, valid: bool = True, scheme: Scheme = Scheme.ED25519) -> Claim:
    public, secret = signatures.keypair_from_seed(scheme, SEED)
    payload = b"payload %d" % number
    signature = signatures.sign(scheme, public, secret, payload if valid else b"other")
    return Claim(scheme, public, payload, signature)


def test_only_valid_claims_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    verifier = Verifier()
    good, bad = claim(1), claim(1, valid=False)
    assert verifier.verify(*good)
    assert not verifier.verify(*bad)
    monkeypatch.setattr(signatures, "verify", lambda *_: False)
    assert verifier.verify(*good)
    assert not verifier.verify(*bad)
    assert not verifier.verify(good.scheme, good.signer, good.payload + b"x", good.signature)


def test_keys_of_different_claims_differ() -> None:
    base = claim(1)
    others = [
        Claim(Scheme.SR25519, base.signer, base.payload, base.signature),
        Claim(base.scheme, base.signer[1:], base.payload + base.signer[:1], base.signature),
        Claim(base.scheme, base.signer, base.payload[:-1], base.signature),
    ]
    assert len({claim.key for claim in [base, *others]}) == 4


@pytest.mark.trio
async def test_workers_do_the_work_and_agree_with_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    verifier = Verifier()
    claims = [claim(n, valid=n % 3 != 0, scheme=Scheme(n % 2)) for n in range(300)]
    monkeypatch.setattr(signatures, "verify", None)  # nobody checks in this process
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(verifier.run_worker)
            assert await verifier.prepare(claims) == [n % 3 != 0 for n in range(300)]
            nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_a_dying_worker_loses_no_claim() -> None:
    verifier = Verifier()
    claims = [claim(n, valid=n % 3 != 0) for n in range(300)]
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(verifier.run_worker)
            assert await verifier.prepare(claims[:1]) == [False]
            (child,) = children()
            os.kill(child, signal.SIGKILL)
            assert await verifier.prepare(claims) == [n % 3 != 0 for n in range(300)]
            nursery.cancel_scope.cancel()


def children() -> list[int]:
    return [int(pid) for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()]
