"""For any answer of a node, a wallet's command ends with one sentence (B11), harmless to the terminal (B10)."""

from __future__ import annotations

import asyncio
import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from between import Between
from nightly_but import nightly_but
from wallet_runner import chain, said, wallet

COMMANDS = {
    "balance": ("balance", "//Alice"),
    "send": ("send", "//Bob", "1", "--key", "//Alice", "--dry-run"),
    "stakes": ("stakes", "//Alice"),
    "validators": ("validators",),
    "rewards": ("rewards", "//Alice"),
    "candidates": ("candidates",),
    "history": ("history", "//Alice"),
    "why": ("why", "0x" + "11" * 32),
}
METHODS = {
    "balance": (
        "chain_getHeader", "ogpu_certifiedHeader", "state_getReadProof", "ogpu_parameters", "state_getRuntimeVersion",
    ),
    "send": (
        "chain_getBlockHash", "chain_getHeader", "ogpu_callProof", "system_accountNextIndex", "state_getReadProof",
    ),
    "stakes": ("ogpu_callProof",),
    "validators": ("ogpu_callProof",),
    "rewards": ("ogpu_callProof",),
    "candidates": ("ogpu_callProof",),
    "history": ("ogpu_callProof", "state_getReadProof"),
    "why": ("chain_getBlockHash", "chain_getBlock", "author_pendingExtrinsics"),
}  # fmt: skip
ODD: tuple[Any, ...] = (
    None, True, -1, 10**30, "", "x", "0x", "0x00", "0x" + "ff" * 31, "0x" + "ff" * 500, [], [5], {}, {"number": "x"},
    {"block": {"header": {"number": "0x1"}, "extrinsics": 5}}, {"proof": "-5"}, {"proof": None},
)  # fmt: skip
SHARES = 3  # of the odd answers, each with tests of its own
HARMLESS_ANSWERS = {  # an answer that is a value, if not the true one
    ("balance", "ogpu_certifiedHeader"), ("send", "system_accountNextIndex"), ("why", "author_pendingExtrinsics"),
}  # fmt: skip


async def commanded(folder: Path, node: str, name: str, method: str, odd: Any) -> Result:
    """Run a command whose node answers `odd` to `method`."""
    between = Between(node)
    numbers: set[int] = set()

    async def spoil(direction: str, message: dict[str, Any], *_: Any) -> bool:
        if direction == "ask" and message["method"] == method:
            numbers.add(message["id"])
        elif direction == "answer" and message.get("id") in numbers:
            message["result"] = odd
        return False

    between.spoil = spoil
    async with between.served() as url:
        result = await asyncio.to_thread(wallet, folder, url, *COMMANDS[name])
    assert numbers, "the command asks this"
    return result


@pytest.mark.parametrize(("name", "first"), nightly_but(10, product(COMMANDS, range(SHARES))))
def test_b11_an_odd_answer_is_one_sentence(tmp_path: Path, name: str, first: int) -> None:
    with chain(tmp_path) as node:
        for method in METHODS[name]:
            for odd in ODD[first::SHARES]:
                result = asyncio.run(commanded(tmp_path, node, name, method, odd))
                case = (name, method, odd, result.output)
                assert result.exception is None or isinstance(result.exception, SystemExit), case
                if result.exit_code == 0:
                    assert (name, method) in HARMLESS_ANSWERS, case
                else:
                    assert result.exit_code in {1, 2}, case
                    assert len(said(result, "error")) == 1, case
                    assert len(said(result, "note")) == len(result.stderr.splitlines()) - 1, case


@pytest.mark.parametrize("where", ["message", "data"])
def test_b10_what_a_node_writes_is_no_command_for_the_terminal(tmp_path: Path, where: str) -> None:
    evil = "\x1b[2J\x1b]0;owned\x07\u202egnp\rAll is well"
    results = []

    async def spoil(direction: str, message: dict[str, Any], *_: Any) -> bool:
        if direction == "answer":
            message.pop("result", None)
            message["error"] = {"code": 1, "message": "no", where: evil}
        return False

    async def run(node: str) -> None:
        between = Between(node)
        between.spoil = spoil
        async with between.served() as url:
            results.append(await asyncio.to_thread(wallet, tmp_path, url, *COMMANDS["balance"]))

    with chain(tmp_path) as node:
        asyncio.run(run(node))
    (result,) = results
    assert result.exit_code == 1
    assert "All is well" in result.stderr
    assert all(letter.isprintable() for letter in result.stderr.removesuffix("\n"))
    assert json.dumps(evil) not in result.stdout
