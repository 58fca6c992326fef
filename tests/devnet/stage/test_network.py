"""A stage starts each provider with its own options, on the first start and on every later one."""

from pathlib import Path

from devnet.launcher import layout
from devnet.stage.network import Stage
from devnet.stage.report import Narrator


def test_a_provider_runs_with_its_options(tmp_path: Path) -> None:
    stage = Stage(layout.create(tmp_path / "devnet", 2, providers=True, any_ports=True), Narrator(1))
    honest_arguments = stage.process("Bob").arguments
    stage.run_options["Alice"] = ("--no-roll-calls",)
    assert stage.process("Alice").arguments[-1] == "--no-roll-calls"
    assert stage.process("Bob").arguments == honest_arguments
    assert "run" in honest_arguments
