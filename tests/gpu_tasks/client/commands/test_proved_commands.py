"""`ogpu` believes its node only what it shows: a lie is named, ends the command, and nothing is paid twice (B4, B5)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result

from between import Spoil, lose_after_submit, lose_before_submit, spoiled
from cli import calls
from genesis.chain import GENESIS_KEYS
from gpu_tasks.client.cli import main
from gpu_tasks.client.units import watch
from gpu_tasks.client.units.posting import Sealer
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import UnitTerms
from gpu_tasks.workloads import registry
from played_node import DevChain
from runtime.blocks.extrinsic import decode_extrinsic
from runtime.pallets.system import System
from wallet.client import ChainClient
from wallet.proved.pins import PIN_FILE
from wallet.rpc import RpcConnection, RpcJson
from wallet.suri import keypair_from_suri
from wallet_runner import answer, chain

RUNTIME = DevChain().runtime
EXAMPLES = Path(__file__).parents[4] / "examples"
SHOWN_KEYS = ["0x" + key.hex() for key in GENESIS_KEYS]
GENESIS = "0x" + DevChain().genesis_hash.hex()
BOB = keypair_from_suri("//Bob")
NAMED = "do not believe the node at "
SERVICE = [
    "offer", "create-service", "--workload", registry.FORMS[0].name, "--name", "x", "--price-min", "0.01",
    "--price-max", "1",
    "--ramp", "0", "--commit-window", "20", "--max-tokens", "100", "--key", "//Bob",
]  # fmt: skip


pytestmark = pytest.mark.usefixtures("stored_nowhere")


def ogpu(folder: Path, url: str, *words: str, typed: str | None = None) -> Result:
    """Run a command; with `typed` as if somebody sat at the terminal."""
    with patch.object(calls, "is_attended", lambda: typed is not None):
        options = ["--url", url, "--keyring", str(folder / "keys"), "--json"]
        return CliRunner().invoke(main, [*options, *words], input=typed)


def post_words(folder: Path, *more: str, is_agreed: bool = True) -> list[str]:
    more = (*more, "--yes") if is_agreed else more
    (folder / "prompts").write_text("def f():\n")
    return ["unit", "post", str(folder / "prompts"), "--key", "//Bob", "--racers", "3", "--anyway", *more]


@contextmanager
def lied_to_by(lie: Any) -> Iterator[None]:
    """Every answer of every node goes through `lie(method, parameters, said)`."""
    honest = RpcConnection.call

    async def call(rpc: RpcConnection, method: str, *parameters: Any) -> RpcJson:
        return lie(method, parameters, await honest(rpc, method, *parameters))

    with patch.object(RpcConnection, "call", call):
        yield


def without_a_node_of_the_proof(method: str, parameters: tuple[Any, ...], said: RpcJson) -> RpcJson:
    is_read = method == "ogpu_callProof" or (method == "state_getReadProof" and parameters[0] != SHOWN_KEYS)
    return {**said, "proof": said["proof"][1:]} if is_read else said


def test_a_node_that_lies_ends_every_command_with_a_sentence(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        (unit,) = [row["unit"] for row in answer(ogpu(tmp_path, url, *post_words(tmp_path)))]
        commands = (
            ["offer", "services"],
            ["offer", "providers"],
            ["offer", "search", "price<1"],
            ["offer", "price"],
            ["task", "plan", str(EXAMPLES / "minimal.yaml"), "--key", "//Bob"],
            post_words(tmp_path, "--again"),
            ["unit", "watch", unit, "--key", "//Bob"],
            ["unit", "watch", "--key", "//Bob"],
            ["unit", "result", unit, "--key", "//Bob"],
            ["unit", "show", unit],
            ["unit", "cancel", unit, "--key", "//Bob", "--yes"],
            ["offer", "close-service", "0", "--key", "//Alice", "--yes"],
            [*SERVICE, "--yes"],
            ["task", "submit", str(EXAMPLES / "minimal.yaml"), "--key", "//Bob", "--yes"],
            ["ps", "--key", "//Bob"],
            *(["task", name, unit] for name in ("show", "bids", "verify")),
            *(["task", name, unit, "--key", "//Bob", "--yes"] for name in ("dispute", "confirm")),
            ["task", "stop", unit, "--key", "//Bob", "--yes"],
        )
        with lied_to_by(without_a_node_of_the_proof):
            for words in commands:
                refused = ogpu(tmp_path, url, *words)
                assert refused.exit_code == 2, (words, refused.output)
                assert refused.stderr.count(NAMED + url) == 1, (words, refused.output)
                assert refused.stdout == "", words
                assert "Traceback" not in refused.output
        assert asyncio.run(posted(url)) == (1, 1)


async def posted(url: str) -> tuple[int, int]:
    """Bob's units and nonce, in the final chain."""
    async with await ChainClient.connect(url) as client:
        final = await client.finalized()
        count = await client.read(InferenceMarket.post_counts, BOB.account, at=final)
        return count, (await client.read(System.account, BOB.account, at=final)).nonce


def test_the_chain_is_pinned_and_the_options_are_the_wallet_s(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        first = ogpu(tmp_path, url, "offer", "services")
        assert "from now on it keeps to the chain 'Development', genesis " + GENESIS in first.stderr
        again = ogpu(tmp_path, url, "--genesis", GENESIS, "offer", "services")
        assert "first use" not in again.stderr
        believed = ogpu(tmp_path, url, "--trust-node", "offer", "services")
        assert f"--trust-node: what {url} says is believed without proof" in believed.stderr
        assert answer(first) == answer(again) == answer(believed)
        pin = tmp_path / "keys" / PIN_FILE
        pin.write_text(pin.read_text().replace(GENESIS, "0x" + "ab" * 32))
        refused = ogpu(tmp_path, url, *post_words(tmp_path))
        assert refused.exit_code == 2
        assert "Nothing was signed" in refused.stderr
        assert "not 0xcdcd" in ogpu(tmp_path, url, "--genesis", "0x" + "cd" * 32, "offer", "services").stderr


def test_an_old_final_block_is_said_once(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        answer(ogpu(tmp_path, url, *post_words(tmp_path)))  # the played chain's clock stands long ago
        assert ogpu(tmp_path, url, "offer", "providers").stderr.count("old: what it shows may have changed since") == 1


def test_what_the_events_of_a_unit_s_end_say_of_payments_was_shown(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        (unit,) = [row["unit"] for row in answer(ogpu(tmp_path, url, *post_words(tmp_path)))]
        answer(ogpu(tmp_path, url, "unit", "cancel", unit, "--key", "//Bob", "--yes"))
        events = "0x" + RUNTIME.item(System.event_records).key().hex()

        def forge(method: str, parameters: tuple[Any, ...], said: RpcJson) -> RpcJson:
            is_of_events = method == "state_getReadProof" and parameters[0] == [events]
            return {**said, "proof": said["proof"][1:]} if is_of_events else said

        with lied_to_by(forge):
            refused = ogpu(tmp_path, url, "unit", "show", unit)
        assert refused.exit_code == 2
        assert NAMED + url in refused.stderr


def test_a_node_that_tells_of_no_final_block_is_looked_at_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "SILENCE_SECONDS", 0.2)

    async def mute(direction: str, message: dict[str, Any], *_: Any) -> bool:
        return direction == "answer" and "method" in message

    with chain(tmp_path) as node:
        (unit,) = [row["unit"] for row in answer(ogpu(tmp_path, node, *post_words(tmp_path)))]
        answer(ogpu(tmp_path, node, "unit", "cancel", unit, "--key", "//Bob", "--yes"))
        with spoiled(node, mute) as (url, _):
            watched = ogpu(tmp_path, url, "unit", "watch", unit, "--key", "//Bob")
        assert watched.exit_code == 1
        assert "1 of 1 unit ended without a result" in watched.stderr
        assert f"no block is final for 0 s: the chain stands still, or {url} does" in watched.stderr


@pytest.mark.parametrize("spoil", [lose_after_submit, lose_before_submit])
def test_b5_a_retry_after_a_lost_answer_cancels_creates_and_closes_once(tmp_path: Path, spoil: Spoil) -> None:
    with chain(tmp_path) as url:
        (unit,) = [row["unit"] for row in answer(ogpu(tmp_path, url, *post_words(tmp_path)))]
        commands = [*SERVICE, "--yes"], ["offer", "close-service", "1", "--key", "//Bob", "--yes"]
        for used, words in enumerate((*commands, ["unit", "cancel", unit, "--key", "//Bob", "--yes"]), 1):
            with spoiled(url, spoil) as (lossy, _):
                lost = ogpu(tmp_path, lossy, *words)
            assert lost.exit_code == 2
            assert "may have been sent" in lost.stderr
            retried = ogpu(tmp_path, url, *words)
            assert asyncio.run(posted(url)) == (1, 1 + used), retried.output
            assert (
                retried.exit_code == 0 or "nothing to cancel" in retried.stderr or "no open service 1" in retried.stderr
            )
        assert [row["service"] for row in answer(ogpu(tmp_path, url, "offer", "services"))] == [0]


def test_a_tip_goes_to_the_author_and_a_post_asks_at_a_terminal(tmp_path: Path) -> None:
    tips: list[int] = []

    async def note_tips(direction: str, message: dict[str, Any], *_: Any) -> bool:
        if direction == "ask" and message["method"] == "author_submitAndWatchExtrinsic":
            who = decode_extrinsic(RUNTIME, bytes.fromhex(message["params"][0][2:])).authorization
            assert who is not None
            tips.append(who.extra.tip)
        return False

    with chain(tmp_path) as node, spoiled(node, note_tips) as (url, _):
        words = post_words(tmp_path, "--tip", "0.5", is_agreed=False)
        plain = answer(ogpu(tmp_path, url, *post_words(tmp_path), "--dry-run"))
        tipped = answer(ogpu(tmp_path, url, *words, "--dry-run"))
        # the tip, and the fee for the bytes that say it
        assert 5 * 10**7 < int(tipped["fees"]["grains"]) - int(plain["fees"]["grains"]) < 5 * 10**7 + 10**6
        declined = ogpu(tmp_path, url, *words, typed="n\n")
        assert declined.exit_code == 1
        assert "Post 1 unit for at most 0." in declined.stderr
        assert asyncio.run(posted(node)) == (0, 0)
        (unit,) = [row["unit"] for row in answer(ogpu(tmp_path, url, *words, typed="y\n"))]
        dry = answer(ogpu(tmp_path, url, "unit", "cancel", unit, "--key", "//Bob", "--tip", "0.25", "--dry-run"))
        assert dry["tip"]["ogpu"] == "0.25"
        done = answer(ogpu(tmp_path, url, "unit", "cancel", unit, "--key", "//Bob", "--tip", "0.25", "--yes"))
        assert int(done["fee"]["grains"]) > 25 * 10**6
        assert tips == [5 * 10**7, 25 * 10**6]


def test_b5_units_that_the_chain_has_forgotten_are_not_posted_again(tmp_path: Path) -> None:
    """The record of a unit goes a while after its end; that its extrinsic was in a block stays."""
    with chain(tmp_path) as url:
        with spoiled(url, lose_after_submit) as (lossy, _):
            lost = ogpu(tmp_path, lossy, *post_words(tmp_path))
        assert "may have been sent. Repeat" in lost.stderr
        honest = ChainClient.read_many

        async def forgotten(client: ChainClient, item: Any, keys: Any, *, at: bytes | None = None) -> Any:
            return [None] * len(keys) if item is InferenceMarket.units else await honest(client, item, keys, at=at)

        with patch("wallet.verified.VerifiedClient.read_many", forgotten):
            for _ in range(2):
                refused = ogpu(tmp_path, url, *post_words(tmp_path))
                assert refused.exit_code == 2
                assert "and the chain has forgotten its units since. It is not posted again" in refused.stderr
        assert asyncio.run(posted(url)) == (1, 1)
        (row,) = answer(ogpu(tmp_path, url, *post_words(tmp_path)))
        assert row["prompt"] == "def f():"
        assert asyncio.run(posted(url)) == (1, 1)


def test_a_retry_asks_for_the_funds_of_what_is_not_posted_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first try locked the funds: a customer with just enough money was refused the retry, and saw no unit."""
    with chain(tmp_path) as url:
        with spoiled(url, lose_after_submit) as (lossy, _):
            lost = ogpu(tmp_path, lossy, *post_words(tmp_path))
        assert "may have been sent. Repeat" in lost.stderr

        async def nothing(*_: Any) -> int:
            return 0

        monkeypatch.setattr("gpu_tasks.client.commands.purchase.spendable", nothing)
        dry = answer(ogpu(tmp_path, url, *post_words(tmp_path), "--dry-run"))
        assert (dry["units"], dry["locked"]["grains"], dry["fees"]["grains"]) == (0, "0", "0")
        anew = ogpu(tmp_path, url, *post_words(tmp_path), "--again")
        assert "the account can spend 0 oGPU, and posting 1 unit takes 0." in anew.stderr
        (row,) = answer(ogpu(tmp_path, url, *post_words(tmp_path)))
        assert row["prompt"] == "def f():"
        assert asyncio.run(posted(url)) == (1, 1)


async def certified(url: str) -> RpcJson:
    async with await ChainClient.connect(url) as client:
        return await client.rpc.call("ogpu_certifiedHeader")


def test_b5_an_old_final_block_makes_nobody_post_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Sealer.terms

    async def terms(sealer: Sealer, requests: Any, tell: Any) -> list[UnitTerms]:
        # the played chain's beacon calls genesis final
        return [replace(each, sealed_at=0) for each in await honest(sealer, requests, tell)]

    monkeypatch.setattr(Sealer, "terms", terms)
    with chain(tmp_path) as url:
        answer(ogpu(tmp_path, url, *SERVICE, "--yes"))
        old = asyncio.run(certified(url))
        answer(ogpu(tmp_path, url, *SERVICE, "--yes"))
        with spoiled(url, lose_after_submit) as (lossy, _):
            ogpu(tmp_path, lossy, *post_words(tmp_path))

        def lie(method: str, parameters: tuple[Any, ...], said: RpcJson) -> RpcJson:
            return old if method == "ogpu_certifiedHeader" and not parameters else said

        with lied_to_by(lie):
            again = ogpu(tmp_path, url, *post_words(tmp_path))
        assert "the node shows an old one" in again.stderr
        assert asyncio.run(posted(url))[0] == 1
