"""Run the checks that the merge gate leaves out: `make nightly`, or `make nightly NIGHTLY="units cheats"` for some.

Each part is a target of the Makefile. All parts receive one fresh seed, which the first line prints; `SEED=n` repeats
a night. A failed part does not stop the rest. The last line names the parts that ran, failed and were left out, with
reasons. The exit status is 1 if any part failed.
"""

import argparse
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from devnet.launcher.dockerd import why_no_engine
from gpu_tasks.workloads.model_forms import form_named

CHAT_WORKLOAD = "decoder-int8:smollm2-135m-instruct"
PART_SECONDS = 3 * 3600.0
"""The longest parts take an hour on two cores. A part that hangs must not delay the others by a whole night."""
STOP_SECONDS = 60.0


def _why_no_broker() -> str:
    found = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    return "" if found else "not installed: mosquitto"


def _why_no_gpu() -> str:
    return "" if shutil.which("nvidia-smi") else "no NVIDIA GPU"


def _why_no_model() -> str:
    try:
        form_named(CHAT_WORKLOAD)
    except LookupError as error:
        return str(error)
    return ""


NEEDS: Mapping[str, Callable[[], str]] = {
    "chats": _why_no_model,
    "containers": why_no_engine,
    "escape": why_no_engine,
    "gpu": _why_no_gpu,
    "telemetry": _why_no_broker,
}
"""The reason, by part, why this machine cannot run it. It is empty if the machine can."""
PARTS = (
    "alltests properties soak simulate twins replay economy stakes claims game honest conformance capacity demo "
    "units sessions equivocation batchkills chats rollcall seats stolenkey files elections auction telemetry "
    "containers escape clients liars cheats flood crash market mutants package gpu"
).split()
"""The parts in the order of a night: the tests, the simulations, then real devnets from short to long."""


@dataclass
class Night:
    """The outcome of each part."""

    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    not_chosen: list[str] = field(default_factory=list)

    def summary(self, seed: int, seconds: float) -> str:
        """Return the last line."""
        lines = [f"ran {' '.join(self.passed + self.failed) or 'nothing'} with SEED={seed} in {seconds / 60:.0f} min"]
        if self.failed:
            lines.append(f"failed: {' '.join(self.failed)}")
        if self.left_out:
            lines.append(f"left out: {', '.join(f'{name} ({why})' for name, why in self.left_out.items())}")
        if self.not_chosen:
            lines.append(f"not chosen: {' '.join(self.not_chosen)}")
        return f"nightly: {'; '.join(lines)}"


def run(chosen: Sequence[str], seed: int, logs: Path) -> Night:
    """Run each part with `make` in the current folder. Its output goes to a file of its own."""
    night = Night()
    logs.mkdir(parents=True, exist_ok=True)
    for name in PARTS:
        if name not in chosen:
            night.not_chosen.append(name)
            continue
        if why := NEEDS[name]() if name in NEEDS else "":
            night.left_out[name] = why
            continue
        started = time.monotonic()
        is_good = _make(name, seed, logs / f"{name}.log")
        (night.passed if is_good else night.failed).append(name)
        print(f"nightly: {name} {'passed' if is_good else 'FAILED'}, {time.monotonic() - started:.0f} s", flush=True)
    return night


def _make(target: str, seed: int, log: Path) -> bool:
    with log.open("wb") as output:
        # A separate session, so that a part and all processes that it started can be stopped together.
        process = subprocess.Popen(
            ["make", target, f"SEED={seed}", f"FIRST={seed}"],  # noqa: S607
            stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            return process.wait(PART_SECONDS) == 0
        except subprocess.TimeoutExpired:
            output.write(b"nightly: stopped after its time\n")
            return False
        finally:
            _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop the part and the processes that it started."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, how)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                continue


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen parts, or all."""
    parser = argparse.ArgumentParser(prog="python -m scripts.nightly", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"only these of {' '.join(PARTS)}")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="of every part that draws")
    parser.add_argument("--logs", type=Path, default=Path("out") / "nightly", help="folder for each part's output")
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {' '.join(sorted(unknown))}; parts are {' '.join(PARTS)}")
    print(f"nightly: SEED={options.seed}; output in {options.logs}", flush=True)
    started = time.monotonic()
    night = run(options.parts or PARTS, options.seed, options.logs)
    print(night.summary(options.seed, time.monotonic() - started))
    return 1 if night.failed else 0


if __name__ == "__main__":
    sys.exit(main())
