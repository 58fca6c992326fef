"""A real node, a real provider, a real customer: post, execute, attest, pay, read."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from devnet.launcher.free_ports import one_free_port
from genesis.presets import load_spec
from genesis.spec import to_json
from node_process import NodeProcess, wait_for
from provider_process import ProviderProcess, customer

pytestmark = pytest.mark.e2e

SECONDS = 120.0
WINDOW_BLOCKS = 600
"""The commit and the reveal window: a killed daemon starts again within it, also on a slow machine."""


@pytest.fixture
def network(tmp_path: Path) -> Iterator[tuple[str, ProviderProcess]]:
    """A node of a development chain, and Alice's provider at the endpoint that its genesis names."""
    rpc_port, port = one_free_port(), one_free_port()
    spec = load_spec("dev")
    assert spec.patch is not None
    spec.patch["devices"]["providers"][0]["endpoint"] = f"http://127.0.0.1:{port}"
    spec.patch["inferenceMarket"]["services"][0]["commit_window"] = WINDOW_BLOCKS
    spec.patch["chainParameters"] = {"InferenceMarket.race_reveal": WINDOW_BLOCKS}
    (tmp_path / "spec.json").write_text(to_json(spec))
    flags = ["--chain", str(tmp_path / "spec.json"), "--alice", "--rpc-port", str(rpc_port), "--no-prometheus"]
    node, url = NodeProcess(tmp_path, "node", *flags), f"ws://127.0.0.1:{rpc_port}"
    provider = ProviderProcess(tmp_path, "Alice", url, port=port)
    try:
        node.start()
        wait_for(lambda: node.final_height() >= 2, SECONDS)
        provider.start()
        wait_for(lambda: provider.count("started") == 1, SECONDS)
        yield url, provider
    finally:
        provider.close()
        node.close()


def test_units_are_mined_paid_and_read(network: tuple[str, ProviderProcess], tmp_path: Path) -> None:
    url, provider = network
    prompts = tmp_path / "prompts"
    prompts.write_text("def add(a, b):\nimport os\n")
    options = [
        "unit",
        "post",
        str(prompts),
        "--key",
        "//Bob",
        "--racers",
        "1",
        "--max-tokens",
        "16",
        "--set",
        "temperature=0",
    ]
    options += ["--yes"]
    cost = customer(url, *options, "--dry-run")
    assert (cost["units"], cost["sent"]) == (2, False)
    rows = customer(url, *options, "--watch")
    ended = {row["unit"]: row for row in rows if row["state"] == "settled"}
    assert sorted(row["prompt"] for row in ended.values()) == ["def add(a, b):", "import os"]
    for unit, row in ended.items():
        assert row["attested_in_block"] <= row["ended_in_block"] <= row["height"]
        assert len(row["completion"].encode()) <= 64
        assert customer(url, "unit", "result", unit, "--key", "//Bob")["completion"] == row["completion"]
    assert provider.count("executed") == 2
