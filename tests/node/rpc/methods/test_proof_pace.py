"""Keys to prove go to the node at a pace, and nobody's many hold up somebody's few."""

import asyncio

import pytest

from node.rpc.methods.proof_pace import KEYS_AT_ONCE, ProofPace


def test_few_keys_are_not_behind_all_of_many() -> None:
    order: list[str] = []

    async def ask(pace: ProofPace, name: str, keys: list[int]) -> None:
        for count in keys:
            await pace.take(count)
            order.append(name)

    async def main() -> None:
        pace = ProofPace(KEYS_AT_ONCE * 1_000)
        many = asyncio.create_task(ask(pace, "many", [KEYS_AT_ONCE] * 16))
        await asyncio.sleep(0)
        await asyncio.gather(many, *(ask(pace, f"few {number}", [1]) for number in range(3)))

    asyncio.run(main())
    assert sorted(order[-12:]) == ["many"] * 12
    assert sorted(set(order[:7])) == ["few 0", "few 1", "few 2", "many"]


def test_the_pace_holds_over_all_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "time", lambda: 1_000.0)
        monkeypatch.setattr(asyncio, "sleep", sleep)
        pace = ProofPace(100)
        for keys in (5, 15, 1):
            await pace.take(keys)

    asyncio.run(main())
    assert waits[0] < 0
    assert waits[1:] == [pytest.approx(0.05), pytest.approx(0.20)]
