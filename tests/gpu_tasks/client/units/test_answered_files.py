"""`ogpu unit post FILE --out RESULTS` with a real node and a real provider: answered as OpenAI does."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devnet.launcher.free_ports import one_free_port
from genesis.presets import load_spec
from genesis.spec import to_json
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import unit_id_of
from node_process import NodeProcess, wait_for
from provider_process import ProviderProcess, customer
from wallet.client import ChainClient
from wallet.suri import keypair_from_suri

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]

SECONDS = 60.0
BOB = keypair_from_suri("//Bob").account


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A node of a development chain, beside Alice's provider at the endpoint that its genesis names."""
    rpc_port, port = one_free_port(), one_free_port()
    spec = load_spec("dev")
    assert spec.patch is not None
    spec.patch["devices"]["providers"][0]["endpoint"] = f"http://127.0.0.1:{port}"
    (tmp_path / "spec.json").write_text(to_json(spec))
    flags = ["--chain", str(tmp_path / "spec.json"), "--alice", "--rpc-port", str(rpc_port), "--no-prometheus"]
    node, url = NodeProcess(tmp_path, "node", *flags), f"ws://127.0.0.1:{rpc_port}"
    provider = ProviderProcess(tmp_path, "Alice", url, port=port)
    try:
        node.start()
        wait_for(lambda: node.final_height() >= 2, SECONDS)
        provider.start()
        wait_for(lambda: provider.count("started") == 1, SECONDS)
        yield url
    finally:
        provider.close()
        node.close()


def words(url: str, folder: Path, *more: str) -> list[str]:
    """The command that answers the file of this folder."""
    where = ["--out", str(folder / "answers"), "--postings", str(folder / "records")]
    asked = ["unit", "post", str(folder / "file"), "--key", "//Bob", "--racers", "1", "--max-tokens", "8", "--yes"]
    return [sys.executable, "-m", "gpu_tasks.client.cli", "--url", url, "--json", *asked, *where, *more]


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def openai(number: int, **more: Any) -> str:
    """A line of OpenAI's batch input."""
    body = {"model": "decoder-int8:ogpu-bytes", "prompt": f"def f{number}():", "temperature": 0, **more}
    return json.dumps({"custom_id": f"r{number}", "method": "POST", "url": "/v1/completions", "body": body}) + "\n"


def test_openais_lines_are_answered_in_openais_form(url: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(openai(0) + openai(1, top_k=5) + openai(2, max_tokens=3) + openai(3))
    first = subprocess.run(words(url, tmp_path), capture_output=True, text=True, timeout=120, check=False)
    assert first.returncode == 1, first.stderr
    assert "1 line was refused" in first.stderr
    batch = json.loads(first.stdout)
    assert (batch["object"], batch["status"], batch["endpoint"]) == ("batch", "completed", "/v1/completions")
    assert batch["request_counts"] == {"total": 4, "completed": 3, "failed": 1}
    answers = {line["custom_id"]: line["response"]["body"] for line in lines_of(tmp_path / "answers")}
    assert list(answers) == ["r0", "r2", "r3"]
    assert answers["r2"]["usage"]["completion_tokens"] == 3
    assert answers["r2"]["choices"][0]["finish_reason"] == "length"
    (refused,) = lines_of(tmp_path / "answers.errors")
    assert (refused["custom_id"], refused["response"]["body"]["error"]["code"]) == ("r1", "unsupported_parameter")
    (unit,) = customer(url, "unit", "result", _only_unit(url), "--key", "//Bob")["answers"][:1]
    assert unit["output"] == answers["r0"]["choices"][0]["text"]
    before = (tmp_path / "answers").read_bytes()
    again = subprocess.run(words(url, tmp_path), capture_output=True, text=True, timeout=120, check=False)
    repeated = json.loads(again.stdout)
    changed = {name for name in batch if repeated[name] != batch[name]}
    assert (again.returncode, changed <= {"costs"}) == (1, True), "a run that has ended says so again, with its cost"
    assert (tmp_path / "answers").read_bytes() == before
    assert _posted(url) == 1


def _posted(url: str) -> int:
    """Return the number of units that Bob has ever posted."""

    async def count() -> int:
        async with await ChainClient.connect(url) as client:
            return int(await client.read(InferenceMarket.post_counts, BOB))

    return asyncio.run(count())


def _only_unit(url: str) -> str:
    async def named() -> bytes:
        async with await ChainClient.connect(url) as client:
            return unit_id_of(client.genesis_hash, BOB, 0)

    assert _posted(url) == 1
    return f"0x{asyncio.run(named()).hex()}"
