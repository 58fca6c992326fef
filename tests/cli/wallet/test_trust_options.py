"""`ogpu-wallet` checks its node's proofs: the output that a person sees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import played_node
from error_codes import ended_code
from genesis.chain import GENESIS_KEYS
from played_node import DevChain
from wallet.proved.chain import ProvedChain
from wallet.proved.pins import PIN_FILE
from wallet.proved.trusting import SEEN_FILE, SeenBlock
from wallet.rpc import RpcConnection, RpcJson
from wallet_runner import answer, chain, live_spec, said, wallet

SHOWN_KEYS = ["0x" + key.hex() for key in GENESIS_KEYS]
GENESIS = "0x" + DevChain().genesis_hash.hex()


def test_the_first_use_is_said_once_and_the_same_balance_comes_without_proof(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        first = wallet(tmp_path, url, "balance", "//Alice")
        assert "from now on it keeps to the chain 'Development', genesis " + GENESIS in first.stderr
        again = wallet(tmp_path, url, "--genesis", GENESIS, "balance", "//Alice")
        assert "first use" not in again.stderr
        assert answer(again) == answer(first)
        believed = wallet(tmp_path, url, "--trust-node", "balance", "//Alice")
        assert f"--trust-node: what {url} says is believed without proof" in said(believed, "note")
        assert answer(believed) == answer(first)


def test_another_chain_than_before_is_refused(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        answer(wallet(tmp_path, url, "balance", "//Alice"))
        pin = tmp_path / "keys" / PIN_FILE
        pin.write_text(pin.read_text().replace(GENESIS, "0x" + "ab" * 32))
        refused = wallet(tmp_path, url, "send", "//Bob", "1", "--key", "//Alice", "--yes")
        assert refused.exit_code == 2
        assert "0xabab" in refused.stderr
        assert GENESIS in refused.stderr
        assert "Nothing was signed" in refused.stderr
        wrong = wallet(tmp_path, url, "--trust-node", "--genesis", "0x" + "cd" * 32, "balance", "//Alice")
        assert wrong.exit_code == 2
        assert "not 0xcdcd" in wrong.stderr
        assert ended_code(wallet(tmp_path, url, "--genesis", "0x12", "list")) == "bad_parameter"


def test_a_folder_believes_no_live_chain_without_the_final_block_that_it_saw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A played node is of a development chain, whose own rule is left out here."""

    async def is_made_anew(_chain: ProvedChain, _seen: SeenBlock) -> bool:
        return False

    monkeypatch.setattr(ProvedChain, "is_made_anew", is_made_anew)
    with chain(tmp_path) as url:
        sent = answer(wallet(tmp_path, url, "send", "//Bob", "1", "--key", "//Alice", "--yes"))
        seen = tmp_path / "keys" / SEEN_FILE
        seen.touch(mode=0o600)
        fields = {"genesis": GENESIS, "number": 1, "block": sent["block_hash"], "time_ms": 0}
        seen.write_text(json.dumps(fields | {"block": "0x" + "ab" * 32}))
        refused = wallet(tmp_path, url, "balance", "//Alice")
        assert refused.exit_code == 2
        assert "does not descend from 0xabab" in refused.stderr
        seen.write_text(json.dumps(fields | {"block": "0xno"}))
        assert "does not say which block was seen" in wallet(tmp_path, url, "balance", "//Alice").stderr
        seen.write_text(json.dumps(fields))
        answer(wallet(tmp_path, url, "balance", "//Alice"))


def test_a_development_chain_that_was_made_anew_is_known_again(tmp_path: Path) -> None:
    seen = tmp_path / "keys" / SEEN_FILE
    with chain(tmp_path) as url:
        sent = [
            answer(wallet(tmp_path, url, "send", "//Bob", amount, "--key", "//Alice", "--yes")) for amount in ("1", "2")
        ]
        block = sent[1]["block_hash"]
    (tmp_path / "feed").unlink()
    with chain(tmp_path) as url:
        answer(wallet(tmp_path, url, "send", "//Bob", "4", "--key", "//Alice", "--yes"))  # block 1
        for number, time_ms, is_other in ((1, 0, True), (2, 0, True), (2, 2**62, False)):
            fields = {"genesis": GENESIS, "number": number, "block": block, "time_ms": time_ms}
            seen.touch(mode=0o600)
            seen.write_text(json.dumps(fields))
            asked = wallet(tmp_path, url, "balance", "//Alice")
            answer(asked)
            assert any("this development chain was reset" in note for note in said(asked, "note")) == is_other
            assert (json.loads(seen.read_text())["block"] == block) != is_other if seen.exists() else is_other
            assert "this development chain was reset" not in wallet(tmp_path, url, "balance", "//Alice").stderr


def test_no_live_chain_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(played_node, "SPEC", live_spec())
    with chain(tmp_path) as url:
        assert wallet(tmp_path, url, "balance", "//Alice").exit_code == 0
        genesis = json.loads((tmp_path / "keys" / PIN_FILE).read_text())["genesis"]
        seen = tmp_path / "keys" / SEEN_FILE
        seen.touch(mode=0o600)
        fields = {"genesis": genesis, "number": 0, "block": "0x" + "ab" * 32, "time_ms": 2**62}
        seen.write_text(json.dumps(fields))
        refused = wallet(tmp_path, url, "balance", "//Alice")
        assert (refused.exit_code, "0xabab" in refused.stderr) == (2, True)
        assert json.loads(seen.read_text()) == fields


@pytest.mark.parametrize("command", [("balance", "//Alice"), ("stakes", "//Alice"), ("rewards", "//Alice")])
def test_a_node_that_lies_is_named_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    with chain(tmp_path) as url:
        answer(wallet(tmp_path, url, *command))
        honest = RpcConnection.call

        async def lie(rpc: RpcConnection, method: str, *parameters: Any) -> RpcJson:
            said = await honest(rpc, method, *parameters)
            is_read = method == "ogpu_callProof" or (method == "state_getReadProof" and parameters[0] != SHOWN_KEYS)
            return {**said, "proof": said["proof"][1:]} if is_read else said

        monkeypatch.setattr(RpcConnection, "call", lie)
        refused = wallet(tmp_path, url, *command)
        assert refused.exit_code == 2
        assert said(refused, "error")[0].startswith(f"do not believe the node at {url} about ")
        assert "Traceback" not in refused.output
        assert refused.stdout == ""


def test_a_transfer_that_never_happened_is_not_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node takes it, submits nothing, and says that it is final in some block (B4)."""
    with chain(tmp_path) as url:
        sent = answer(wallet(tmp_path, url, "send", "//Bob", "1", "--key", "//Alice", "--yes"))
        assert sent["status"] == "final"
        fake = sent["block_hash"]
        honest = RpcConnection.subscribe

        async def pretend(rpc: RpcConnection, method: str, *parameters: Any, unsubscribe: str) -> Any:
            if method != "author_submitAndWatchExtrinsic":
                return await honest(rpc, method, *parameters, unsubscribe=unsubscribe)

            async def statuses() -> Any:
                yield {"finalized": fake}

            return statuses()

        monkeypatch.setattr(RpcConnection, "subscribe", pretend)
        refused = wallet(tmp_path, url, "send", "//Bob", "2", "--key", "//Alice", "--yes")
        assert refused.exit_code == 2
        assert "is not in that block" in refused.stderr
        assert json.dumps("final") not in refused.stdout
