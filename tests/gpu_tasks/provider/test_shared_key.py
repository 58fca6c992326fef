"""Calls of a provider key: a message of its daemon with the same nonce costs another attempt."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from error_codes import raises_code
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.provider.commands import calls
from gpu_tasks.provider.registration import Planned
from runtime.cryptography.signatures import Scheme
from runtime.frame.call import Call
from wallet.client import NotIncludedError
from wallet.keypair import Keypair

KEY = Keypair.from_seed(Scheme.ED25519, bytes(32))
CALL = Devices.unregister_provider()


class Output:
    as_json = True

    def facts(self, _: object) -> None:
        """Print nothing."""


class Session:
    """A session whose node drops some calls."""

    output = Output()

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.made = list(errors), list[Call]()

    def run(self, act: Callable[[Any], Awaitable[None]]) -> None:
        async def main() -> None:
            await act(None)

        asyncio.run(main())

    async def make(self, _: object, call: Call, key: Keypair) -> None:
        assert key is KEY
        self.made.append(call)
        if self.errors:
            raise self.errors.pop(0)


def make(monkeypatch: pytest.MonkeyPatch, *errors: Exception) -> Session:
    async def plan(*_: object) -> list[Planned]:
        return [Planned(CALL)]

    async def cost(*_: object) -> dict[str, Any]:
        return {"refused": None}

    monkeypatch.setattr(calls, "_tried_cost", cost)
    session: Any = Session(*errors)
    calls.make(session, lambda: KEY, plan, dry_run=False, is_agreed=True)
    return session  # type: ignore[no-any-return]  # see above


def usurped() -> NotIncludedError:
    return NotIncludedError("usurped", code="not_included")


@pytest.mark.parametrize("times", [0, 1, calls.SENDS_MAX - 1])
def test_calls_whose_nonce_the_daemon_took_are_sent_again(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    assert make(monkeypatch, *(usurped() for _ in range(times))).made == [CALL] * (times + 1)


def test_after_three_attempts_the_error_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    with raises_code(NotIncludedError, "not_included"):
        make(monkeypatch, *(usurped() for _ in range(calls.SENDS_MAX)))
