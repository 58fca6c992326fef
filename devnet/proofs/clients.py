"""`python -m devnet.proofs.clients`: unmodified public clients against `ogpu-node --dev`, then against a devnet.

The devnet's nodes start as an operator starts them, without a flag for clients. Only there a client meets origin
checks, blocks of several authors, and delayed finality. Invariant: a client that could not run is named in the output,
in the last line and in the report, and never counts as passed. Only a missing Node.js leaves the exit status at 0.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer
from typing import Any

from devnet.launcher import processes
from devnet.launcher.free_ports import one_free_port
from devnet.launcher.lifecycle import running, wait_until
from devnet.launcher.processes import Process
from devnet.launcher.status import answers
from devnet.stage.network import fresh_layout
from devnet.stage.scenario import LiveProof, ProofRun, Scenario, run
from runtime.cryptography.signatures import Scheme
from wallet.keypair import Keypair
from wallet.suri import keypair_from_suri

CLIENTS_PACKAGE = "devnet.proofs.public_clients"
PROGRAMS_FOLDER = Path(__file__).parent / "public_clients"
CLIENTS_VARIABLE = "CLIENTS_PYTHON"
EXPECTED_STEPS = ["connected", "read", "fee", "transfer", "transfer", "stake", "module error", "old block"]
VALIDATOR_COUNT = 4
CLIENT_SECONDS = 120.0
INSTALL_SECONDS = 300.0
PASSED_RESULT = "passed"


@dataclass(slots=True)
class RanClient:
    """The result of a client, and its steps."""

    result: str
    steps: list[dict[str, Any]] = field(default_factory=list)

    def failures(self) -> list[str]:
        """Return the reason of a failure. A client that passed or could not run has none."""
        return [self.result] if self.result.startswith("failed") else []


@contextmanager
def development_node(proof_run: ProofRun) -> Iterator[str]:
    """Run one node alone, and yield its address."""
    proof_run.narrator.step("Network: `ogpu-node --dev`")
    node_folder, rpc_port = proof_run.folder / "alone", one_free_port()
    shutil.rmtree(node_folder, ignore_errors=True)
    node_folder.mkdir(parents=True)
    arguments = (
        "--dev",
        "--base-path",
        str(node_folder),
        "--port",
        "0",
        "--rpc-port",
        str(rpc_port),
        "--no-prometheus",
    )
    process = Process("ogpu-node --dev", processes.NODE, arguments, node_folder)
    processes.start(process)
    try:
        wait_until(process, lambda: answers(rpc_port))
        yield f"ws://127.0.0.1:{rpc_port}"
    finally:
        processes.stop(process)


@contextmanager
def devnet_node(proof_run: ProofRun) -> Iterator[str]:
    """Run four validators, and yield the address of one."""
    with running(fresh_layout(proof_run, VALIDATOR_COUNT)) as running_devnet:
        yield running_devnet.members[-1].rpc_url


def _substrate_interface(node_url: str) -> RanClient:
    return _run_client([sys.executable, "-u", "-m", f"{CLIENTS_PACKAGE}.with_substrate_interface", node_url])


def _async_substrate_interface(node_url: str) -> RanClient:
    """Run it in its own environment: its codec has the module name of substrate-interface's."""
    client_python = os.environ.get(CLIENTS_VARIABLE, "")
    if not client_python or not Path(client_python).exists():
        return RanClient(f"failed: {CLIENTS_VARIABLE} names no Python; `make clients` makes it from locks/clients.lock")
    return _run_client([client_python, "-u", "-m", f"{CLIENTS_PACKAGE}.with_async_substrate_interface", node_url])


def _polkadot_js(node_url: str) -> RanClient:
    """Install it from its lock file into out/, once, and run it."""
    # The only client that may be missing: Node.js is no dependency of this project.
    if shutil.which("npm") is None or shutil.which("node") is None:
        return RanClient("not run: node and npm are not on the path; install Node.js 18 or newer to run it")
    install_folder = Path("out") / "polkadot_js"
    install_folder.mkdir(parents=True, exist_ok=True)
    lock_bytes = (PROGRAMS_FOLDER / "polkadot_js" / "package-lock.json").read_bytes()
    installed_lock = install_folder / "installed-lock.json"
    for source_file in (PROGRAMS_FOLDER / "polkadot_js").iterdir():
        shutil.copy(source_file, install_folder)
    if not installed_lock.exists() or installed_lock.read_bytes() != lock_bytes:
        installation = subprocess.run(
            [str(shutil.which("npm")), "ci", "--no-audit", "--no-fund", "--silent"], cwd=install_folder, check=False,
            capture_output=True, text=True, timeout=INSTALL_SECONDS,
        )  # fmt: skip
        if installation.returncode:
            return RanClient(f"failed: npm could not install it: {installation.stderr.strip()[-300:]}")
        installed_lock.write_bytes(lock_bytes)
    return _run_client([str(shutil.which("node")), "proof.mjs", node_url], install_folder)


def _run_client(client_command: Sequence[str], working_folder: Path | None = None) -> RanClient:
    """Run one client, answer its questions about keys, and judge it by its steps."""
    keys_by_scheme = {
        "sr25519": keypair_from_suri("//Alice", Scheme.SR25519),
        "ed25519": Keypair.from_seed(Scheme.ED25519, os.urandom(32)),
    }
    rows: list[dict[str, Any]] = []
    # Errors go to a file: a full pipe without a reader would block the client.
    with tempfile.TemporaryFile("w+") as errors:
        client = subprocess.Popen(
            client_command, cwd=working_folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            text=True, env=processes.source_path(),
        )  # fmt: skip
        assert client.stdin is not None  # both are pipes
        assert client.stdout is not None
        # Reading the client's lines blocks, so a hung client is killed from another thread.
        watchdog = Timer(CLIENT_SECONDS, client.kill)
        watchdog.start()
        for line in client.stdout:
            output_row = json.loads(line)
            if "step" in output_row:
                rows.append(output_row)
                print("  " + "  ".join(f"{key} {value}" for key, value in output_row.items()), flush=True)
            else:
                client.stdin.write(json.dumps(_answer_question(output_row, keys_by_scheme)) + "\n")
                client.stdin.flush()
        status = client.wait()
        watchdog.cancel()
        errors.seek(0)
        error_text = errors.read().strip()[-600:]
    is_passed = [row["step"] for row in rows] == EXPECTED_STEPS and status == 0
    return RanClient(PASSED_RESULT if is_passed else f"failed with status {status}: {error_text}", rows)


def _answer_question(question: dict[str, str], keys_by_scheme: dict[str, Keypair]) -> dict[str, Any]:
    if "sign" in question:
        return {"signature": keys_by_scheme[question["sign"]].sign(bytes.fromhex(question["payload"])).hex()}
    keypair = keys_by_scheme[question["public"]]
    return {"public_key": keypair.public_key.hex(), "address": keypair.address, "crypto_type": int(keypair.scheme)}


CLIENT_RUNNERS: dict[str, Callable[[str], RanClient]] = {
    "substrate-interface": _substrate_interface,
    "async-substrate-interface": _async_substrate_interface,
    "polkadot-js": _polkadot_js,
}


def figures(facts_by_scenario: Mapping[str, RanClient]) -> str:
    """Return the line of figures."""
    passed_names = [client for client, ran_client in facts_by_scenario.items() if ran_client.result == PASSED_RESULT]
    other_results = [
        f"{client} ({ran_client.result})"
        for client, ran_client in facts_by_scenario.items()
        if ran_client.result != PASSED_RESULT
    ]
    return "; ".join(
        [f"{len(passed_names)} of {len(facts_by_scenario)} passed: {', '.join(passed_names)}", *other_results]
    )


PROOF = LiveProof(
    "clients",
    "Unmodified public clients use the chain.",
    [
        Scenario(f"{name}-{place}", f"{name}, {place}", network, client, RanClient.failures)
        for place, network in (("alone", development_node), ("devnet", devnet_node))
        for name, client in CLIENT_RUNNERS.items()
    ],
    figures,
)

if __name__ == "__main__":
    run(PROOF)
