"""`python -m devnet.proofs.clients`: unmodified public clients against `ogpu-node --dev`, then against a devnet.

Exit 1 if one fails. The devnet's nodes are started as an operator starts them, with no flag for clients: a browser's or
a library's origin, blocks of several authors and finality that takes a while are met only there.

What always holds: a client that could not be run is named in the output, in the last line and in the report, and never
counts as passed; only a missing Node.js leaves the exit status at 0.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

from devnet.launcher import processes
from devnet.launcher.errors import DevnetError
from devnet.launcher.free_ports import one_free_port
from devnet.launcher.layout import create
from devnet.launcher.lifecycle import ending_on_signals, running, tail
from devnet.launcher.processes import Process
from devnet.launcher.status import answers
from devnet.stage.report import Report, write
from runtime.cryptography.signatures import Scheme
from wallet.keypair import Keypair
from wallet.suri import keypair_from_suri

PROGRAMS = Path(__file__).parent / "public_clients"
CLIENTS_VARIABLE = "CLIENTS_PYTHON"
STEPS = ["connected", "read", "fee", "transfer", "transfer", "stake", "module error", "old block"]
VALIDATORS = 4
READY_SECONDS = 30.0
CLIENT_SECONDS = 120.0
INSTALL_SECONDS = 300.0
NOT_RUN = "not run: "


def main() -> int:
    """Start each network, run each client against it, report; 0 if every client that could run did all its steps."""
    started = time.monotonic()
    reports: list[Report] = []
    with tempfile.TemporaryDirectory(prefix="ogpu-clients-") as folder, ending_on_signals():
        for name, network in (("--dev", _development_node), ("devnet", _devnet)):
            with network(Path(folder) / name) as url:
                reports += _run_all(name, url)
    write("clients", reports)
    ran = [report["client"] for report in reports if report["result"] == "passed"]
    left_out = [f"{report['client']} ({report['result']})" for report in reports if report["result"] != "passed"]
    parts = [f"{len(ran)} of {len(reports)} passed: {', '.join(ran)}", *left_out, f"{time.monotonic() - started:.0f} s"]
    print(f"clients: {'; '.join(parts)}")
    return 1 if any(report["result"].startswith("failed") for report in reports) else 0


def _run_all(network: str, url: str) -> list[Report]:
    """Every client against the node at `url`."""
    print(f"against {network}:", flush=True)
    reports = [
        _run("substrate-interface", [sys.executable, "-u", str(PROGRAMS / "with_substrate_interface.py"), url]),
        _async_substrate_interface(url),
        _polkadot_js(url),
    ]
    return [{**report, "client": f"{report['client']} on {network}"} for report in reports]


@contextmanager
def _development_node(folder: Path) -> Iterator[str]:
    """One node alone -> its address."""
    folder.mkdir()
    port = one_free_port()
    words = ("--dev", "--base-path", str(folder), "--port", "0", "--rpc-port", str(port), "--no-prometheus")
    node = Process("ogpu-node --dev", processes.NODE, words, folder)
    processes.start(node)
    try:
        _wait_until_ready(node, port)
        yield f"ws://127.0.0.1:{port}"
    finally:
        processes.stop(node)


@contextmanager
def _devnet(folder: Path) -> Iterator[str]:
    """Four validators -> the address of one of them."""
    with running(create(folder, VALIDATORS, any_ports=True)) as net:
        yield net.members[-1].rpc_url


def _wait_until_ready(node: Process, node_port: int) -> None:
    end = time.monotonic() + READY_SECONDS
    while not answers(node_port):
        if processes.running(node) is None or time.monotonic() > end:
            raise DevnetError(f"{node.label} does not answer on port {node_port}; its log ends:\n{tail(node.log)}")
        time.sleep(0.2)


def _async_substrate_interface(url: str) -> Report:
    """In an environment of its own, because its codec takes the same module name as substrate-interface's."""
    name = "async-substrate-interface"
    python = os.environ.get(CLIENTS_VARIABLE, "")
    if not python or not Path(python).exists():
        return _failed(
            name, f"{CLIENTS_VARIABLE} names no Python with it; `make clients` makes one from locks/clients.lock"
        )
    program = PROGRAMS / "with_async_substrate_interface.py"
    return _run(name, [python, "-u", str(program), url])


def _polkadot_js(url: str) -> Report:
    """Installed from its lock file into out/, once."""
    name = "@polkadot/api"
    if shutil.which("npm") is None or shutil.which("node") is None:
        return _left_out(name, "node and npm are not on the path; install Node.js 18 or newer to run it")
    home = Path("out") / "polkadot_js"
    home.mkdir(parents=True, exist_ok=True)
    lock = (PROGRAMS / "polkadot_js" / "package-lock.json").read_bytes()
    stamp = home / "installed-lock.json"
    for file in (PROGRAMS / "polkadot_js").iterdir():
        shutil.copy(file, home)
    if not stamp.exists() or stamp.read_bytes() != lock:
        print(f"installing {name} into {home} (once)", flush=True)
        made = subprocess.run(
            [str(shutil.which("npm")), "ci", "--no-audit", "--no-fund", "--silent"], cwd=home, check=False,
            capture_output=True, text=True, timeout=INSTALL_SECONDS,
        )  # fmt: skip
        if made.returncode:
            return _failed(name, f"npm could not install it: {made.stderr.strip()[-300:]}")
        stamp.write_bytes(lock)
    return _run(name, [str(shutil.which("node")), "proof.mjs", url], home)


def _run(name: str, command: Sequence[str], folder: Path | None = None) -> Report:
    """Run one client, answer its questions about keys, and judge it by its steps."""
    print(f"{name}:", flush=True)
    keys = {
        "sr25519": keypair_from_suri("//Alice", Scheme.SR25519),
        "ed25519": Keypair.from_seed(Scheme.ED25519, os.urandom(32)),
    }
    steps: list[dict[str, Any]] = []
    with tempfile.TemporaryFile("w+") as errors:
        program = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        assert program.stdin is not None  # a pipe, as asked for
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
    if not done:
        print(f"  FAILED with status {status}: {problem}", flush=True)
    return {"client": name, "result": "passed" if done else f"failed: {problem}", "steps": steps}


def _answer(question: dict[str, str], keys: dict[str, Keypair]) -> dict[str, Any]:
    if "sign" in question:
        return {"signature": keys[question["sign"]].sign(bytes.fromhex(question["payload"])).hex()}
    key = keys[question["public"]]
    return {"public_key": key.public_key.hex(), "address": key.address, "crypto_type": int(key.scheme)}


def _left_out(name: str, reason: str) -> Report:
    print(f"{name}:\n  NOT RUN: {reason}", flush=True)
    return {"client": name, "result": NOT_RUN + reason, "steps": []}


def _failed(name: str, reason: str) -> Report:
    print(f"{name}:\n  FAILED: {reason}", flush=True)
    return {"client": name, "result": f"failed: {reason}", "steps": []}


if __name__ == "__main__":
    try:
        sys.exit(main())
    except DevnetError as failure:
        sys.exit(f"clients: {failure}")
