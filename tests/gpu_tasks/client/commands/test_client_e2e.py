"""`ogpu` with a real node process, which proves everything that it says: post, look, take back, sell and close."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from devnet.launcher.free_ports import one_free_port
from gpu_tasks.client.cli import main
from gpu_tasks.workloads import registry
from node_process import NodeProcess, wait_for

pytestmark = pytest.mark.e2e
EXAMPLES = Path(__file__).parents[4] / "examples"
TERMS = ["--price-min", "0.01", "--price-max", "1", "--ramp", "0", "--commit-window", "20", "--max-tokens", "100"]


def is_open(port: int) -> bool:
    """Return True if a process listens on the port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.usefixtures("stored_nowhere")
def test_every_command_goes_by_proof(tmp_path: Path) -> None:
    port = one_free_port()
    node = NodeProcess(tmp_path, "dev", "--dev", "--rpc-port", str(port))
    prompts = tmp_path / "prompts"
    prompts.write_text("def f():\n")

    def ogpu(*words: str, code: int = 0) -> Any:
        said = CliRunner().invoke(main, ["--url", f"ws://127.0.0.1:{port}", "--json", *words])
        assert said.exit_code == code, said.output
        assert "Traceback" not in said.output
        return json.loads(said.stdout) if code == 0 else said.stderr

    try:
        node.start()
        wait_for(lambda: node.final_height() >= 2 and is_open(port), 60)
        for listing in ("services", "providers", "search class=cpu price<1", "price"):
            assert ogpu("offer", *listing.split()) == ogpu("--trust-node", "offer", *listing.split()) != []
        assert ogpu("offer", "search", "price > 1000") == []
        planned = ["task", "plan", str(EXAMPLES / "minimal.yaml"), "--key", "//Bob"]
        assert ogpu(*planned)["served"] is True
        assert ogpu(*planned)["devices_known"] == ogpu("--trust-node", *planned)["devices_known"]
        gang = ogpu("task", "plan", str(EXAMPLES / "gang.yaml"), code=1)
        assert "1 of another class" in gang
        (row,) = ogpu(
            "unit", "post", str(prompts), "--key", "//Bob", "--racers", "3", "--anyway", "--yes", "--tip", "0.001"
        )
        unit = row["unit"]
        assert ogpu("unit", "result", unit, "--key", "//Bob")["why"].startswith("needs 3 owners, 1 offers the service")
        taken_back = ogpu("unit", "cancel", unit, "--key", "//Bob", "--yes")
        ended = f"refunded in block {taken_back['block']}: cancelled by the key that posted it"
        assert ogpu("unit", "result", unit, "--key", "//Bob")["why"] == ended
        shown = ogpu("unit", "show", unit)
        assert (shown["state"], shown["refund"], shown["why"]) == ("refunded", "cancelled", ended)
        (burned,) = shown["payments"]
        assert (burned["to"], burned["amount"]["grains"], burned["out_of"]) == ("burned", "1650", "the customer")
        assert '"unit_ended"' in ogpu("unit", "cancel", unit, "--key", "//Bob", "--yes", code=2)
        words = ["--workload", registry.FORMS[0].name, "--name", "x", *TERMS, "--key", "//Bob", "--yes"]
        made = ogpu("offer", "create-service", *words)
        assert ogpu("offer", "close-service", str(made["service"]), "--key", "//Bob", "--yes")["success"] is True
        assert "ended without a result" in ogpu("unit", "watch", unit, "--key", "//Bob", code=1)
        task = ogpu("task", "submit", str(EXAMPLES / "minimal.yaml"), "--key", "//Bob", "--yes")["task"]
        for looking in (["list", "--key", "//Bob"], ["show", task], ["bids", task], ["verify", task]):
            ogpu("task", *looking)
        assert [check["is_right"] for check in ogpu("task", "verify", task)] == [True, None, None, None, None]
        assert ogpu("task", "cancel", task, "--key", "//Bob", "--yes")["gone"]["ogpu"] == "0.0125"
        assert ogpu("task", "show", task)["outcome"] == "cancelled_before_award"
    finally:
        node.close()
