"""The caching verifier, with real worker processes."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
import trio.testing

from node.pool import verify_worker
from node.pool.verifier import AHEAD_MAX, Claim, Verifier
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
        Claim(base.scheme, bytes(32), base.payload, base.signature),
        Claim(base.scheme, base.signer, base.payload, bytes(64)),
    ]
    assert len({claim.key for claim in [base, *others]}) == 6


@contextlib.asynccontextmanager
async def at_work(verifier: Verifier) -> AsyncIterator[None]:
    """Yield a verifier with a worker, for a minute at most."""
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(verifier.run_worker)
            yield
            nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_workers_do_the_work_and_agree_with_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    verifier = Verifier()
    claims = [claim(n, valid=n % 3 != 0, scheme=Scheme(n % 2)) for n in range(300)]
    monkeypatch.setattr(signatures, "verify", None)  # no check in this process
    async with at_work(verifier):
        assert await verifier.prepare(claims) == [n % 3 != 0 for n in range(300)]


@pytest.mark.trio
async def test_a_dying_worker_loses_no_claim() -> None:
    verifier = Verifier()
    claims = [claim(n, valid=n % 3 != 0) for n in range(300)]
    async with at_work(verifier):
        assert await verifier.prepare(claims[:1]) == [False]
        (child,) = children()
        os.kill(child, signal.SIGKILL)
        assert await verifier.prepare(claims) == [n % 3 != 0 for n in range(300)]


@pytest.mark.trio
async def test_an_interrupt_from_the_terminal_ends_no_worker_that_begins() -> None:
    verifier = Verifier()
    async with at_work(verifier):
        while not (found := [pid for pid in children() if executable(pid) == sys.executable]):
            await trio.sleep(0.001)
        os.kill(found[0], signal.SIGINT)
        assert await verifier.prepare([claim(1)]) == [True]
        assert children() == found


@pytest.mark.trio
async def test_a_worker_has_the_next_claims_before_it_answered_the_first() -> None:
    verifier = Verifier()
    async with at_work(verifier):
        await verifier.prepare([claim(0)])
        (child,) = children()
        os.kill(child, signal.SIGSTOP)
        under_way = [verifier.begin([claim(10 * n + k, valid=k > 0) for k in range(3)]) for n in range(1, 6)]
        await trio.testing.wait_all_tasks_blocked()
        assert verifier.frames_waiting == 0, "all of it is in the pipe of the worker, which answers nothing"
        os.kill(child, signal.SIGCONT)
        assert [await verdicts.wait() for verdicts in under_way] == [[False, True, True]] * 5


@pytest.mark.trio
async def test_more_than_a_worker_may_have_before_it_waits_here() -> None:
    verifier = Verifier()
    async with at_work(verifier):
        await verifier.prepare([claim(0)])
        (child,) = children()
        os.kill(child, signal.SIGSTOP)
        under_way = [verifier.begin([claim(n)]) for n in range(1, AHEAD_MAX + 5)]
        await trio.testing.wait_all_tasks_blocked()
        assert verifier.frames_waiting == 4
        os.kill(child, signal.SIGKILL)  # with 16 frames in its hands
        assert [await verdicts.wait() for verdicts in under_way] == [[True]] * (AHEAD_MAX + 4)


@pytest.mark.trio
async def test_what_is_known_is_no_workers_affair() -> None:
    verifier = Verifier()
    assert verifier.verify(*claim(1))
    assert await verifier.prepare([claim(1), claim(1)]) == [True, True]
    assert await verifier.prepare([]) == []


def executable(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().partition("\0")[0]


def children() -> list[int]:
    """Return this process's workers, apart from other children of earlier tests."""
    found = [int(pid) for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()]
    return [pid for pid in found if verify_worker.__name__ in Path(f"/proc/{pid}/cmdline").read_text()]
