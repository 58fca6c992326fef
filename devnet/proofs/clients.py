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

PACKAGE = "devnet.proofs.public_clients"
PROGRAMS = Path(__file__).parent / "public_clients"
CLIENTS_VARIABLE = "CLIENTS_PYTHON"
STEPS = ["connected", "read", "fee", "transfer", "transfer", "stake", "module error", "old block"]
VALIDATORS = 4
CLIENT_SECONDS = 120.0
INSTALL_SECONDS = 300.0
PASSED = "passed"


@dataclass(slots=True)
class RanClient:
    """The result of a client, and its steps."""

    result: str
    steps: list[dict[str, Any]] = field(default_factory=list)

    def failures(self) -> list[str]:
        """Return the reason of a failure. A client that passed or could not run has none."""
        return [self.result] if self.result.startswith("failed") else []


@contextmanager
def development_node(run: ProofRun) -> Iterator[str]:
    """Run one node alone, and yield its address."""
    run.tell.step("Network: `ogpu-node --dev`")
    folder, port = run.folder / "alone", one_free_port()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    words = ("--dev", "--base-path", str(folder), "--port", "0", "--rpc-port", str(port), "--no-prometheus")
    node = Process("ogpu-node --dev", processes.NODE, words, folder)
    processes.start(node)
    try:
        wait_until(node, lambda: answers(port))
        yield f"ws://127.0.0.1:{port}"
    finally:
        processes.stop(node)


@contextmanager
def devnet(run: ProofRun) -> Iterator[str]:
    """Run four validators, and yield the address of one."""
    with running(fresh_layout(run, VALIDATORS)) as net:
        yield net.members[-1].rpc_url


def _substrate_interface(url: str) -> RanClient:
    return _run([sys.executable, "-u", "-m", f"{PACKAGE}.with_substrate_interface", url])


def _async_substrate_interface(url: str) -> RanClient:
    """Run it in its own environment: its codec has the module name of substrate-interface's."""
    python = os.environ.get(CLIENTS_VARIABLE, "")
    if not python or not Path(python).exists():
        return RanClient(f"failed: {CLIENTS_VARIABLE} names no Python; `make clients` makes it from locks/clients.lock")
    return _run([python, "-u", "-m", f"{PACKAGE}.with_async_substrate_interface", url])


def _polkadot_js(url: str) -> RanClient:
    """Install it from its lock file into out/, once, and run it."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        return RanClient("not run: node and npm are not on the path; install Node.js 18 or newer to run it")
    home = Path("out") / "polkadot_js"
    home.mkdir(parents=True, exist_ok=True)
    lock = (PROGRAMS / "polkadot_js" / "package-lock.json").read_bytes()
    stamp = home / "installed-lock.json"
    for file in (PROGRAMS / "polkadot_js").iterdir():
        shutil.copy(file, home)
    if not stamp.exists() or stamp.read_bytes() != lock:
        made = subprocess.run(
            [str(shutil.which("npm")), "ci", "--no-audit", "--no-fund", "--silent"], cwd=home, check=False,
            capture_output=True, text=True, timeout=INSTALL_SECONDS,
        )  # fmt: skip
        if made.returncode:
            return RanClient(f"failed: npm could not install it: {made.stderr.strip()[-300:]}")
        stamp.write_bytes(lock)
    return _run([str(shutil.which("node")), "proof.mjs", url], home)


def _run(command: Sequence[str], folder: Path | None = None) -> RanClient:
    """Run one client, answer its questions about keys, and judge it by its steps."""
    keys = {
        "sr25519": keypair_from_suri("//Alice", Scheme.SR25519),
        "ed25519": Keypair.from_seed(Scheme.ED25519, os.urandom(32)),
    }
    steps: list[dict[str, Any]] = []
    # Errors go to a file: a full pipe without a reader would block the client.
    with tempfile.TemporaryFile("w+") as errors:
        program = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            env=processes.source_path(),
        )  # fmt: skip
        assert program.stdin is not None  # both are pipes
        assert program.stdout is not None
        watchdog = Timer(CLIENT_SECONDS, program.kill)
        watchdog.start()
        for line in program.stdout:
            said = json.loads(line)
            if "step" in said:
                steps.append(said)
                print("  " + "  ".join(f"{key} {value}" for key, value in said.items()), flush=True)
            else:
                program.stdin.write(json.dumps(_answer(said, keys)) + "\n")
                program.stdin.flush()
        status = program.wait()
        watchdog.cancel()
        errors.seek(0)
        problem = errors.read().strip()[-600:]
    done = [step["step"] for step in steps] == STEPS and status == 0
    return RanClient(PASSED if done else f"failed with status {status}: {problem}", steps)


def _answer(question: dict[str, str], keys: dict[str, Keypair]) -> dict[str, Any]:
    if "sign" in question:
        return {"signature": keys[question["sign"]].sign(bytes.fromhex(question["payload"])).hex()}
    key = keys[question["public"]]
    return {"public_key": key.public_key.hex(), "address": key.address, "crypto_type": int(key.scheme)}


CLIENTS: dict[str, Callable[[str], RanClient]] = {
    "substrate-interface": _substrate_interface,
    "async-substrate-interface": _async_substrate_interface,
    "polkadot-js": _polkadot_js,
}


def figures(facts: Mapping[str, RanClient]) -> str:
    """Return the line of figures."""
    passed = [name for name, client in facts.items() if client.result == PASSED]
    others = [f"{name} ({client.result})" for name, client in facts.items() if client.result != PASSED]
    return "; ".join([f"{len(passed)} of {len(facts)} passed: {', '.join(passed)}", *others])


PROOF = LiveProof(
    "clients",
    "Unmodified public clients use the chain.",
    [
        Scenario(f"{name}-{place}", f"{name}, {place}", network, client, RanClient.failures)
        for place, network in (("alone", development_node), ("devnet", devnet))
        for name, client in CLIENTS.items()
    ],
    figures,
)

if __name__ == "__main__":
    run(PROOF)
