"""Every proof of the scenario runner: its options parse, and its titles are complete."""

import importlib
import pkgutil

import pytest

import devnet.proofs
from devnet.stage.scenario import LiveProof

MODULES = [
    f"devnet.proofs.{each.name}" + (".__main__" if each.ispkg else "")
    for each in pkgutil.iter_modules(devnet.proofs.__path__)
    if each.name not in ("public_clients", "crash_strikes")
]


@pytest.mark.parametrize("name", MODULES)
def test_a_proof_reads_its_options_and_names_its_scenarios_once(name: str) -> None:
    pytest.importorskip("docker", reason="the library docker is not installed")
    proof = importlib.import_module(name).PROOF
    assert isinstance(proof, LiveProof)
    options = proof.parse([])
    assert [scenario.title.format(**vars(options)) for scenario in options.only]
    assert len({scenario.name for scenario in proof.scenarios}) == len(proof.scenarios)
