"""The same random extrinsics give the same roots and events under two Python versions and three hash seeds.

Run as `python -m simulation.replay [--extrinsics 5000] [--seed 1]` (`make replay`). It records a chain once, replays it
in a process for each interpreter and environment, compares every line, and writes out/replay.json.

It exits with 1 if two replays differ, if the recording covers too little, or if one of the Python versions is not on
this machine.
"""

import argparse
import os
import subprocess
import sys
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from runtime.cryptography.hashing import blake2_256
from simulation.replay.interpreters import ROOT, interpreters
from simulation.replay.play import TAPE, play
from simulation.replay.record import Recording, record
from simulation.runs import ended

FAILING_PERCENT_MIN = 30
ERRORS_MIN = 25


@dataclass(frozen=True)
class Surrounding:
    """The environment of a replay besides the version of Python."""

    hash_seed: str
    variables: tuple[tuple[str, str], ...] = ()
    options: tuple[str, ...] = ()


SURROUNDINGS = (
    Surrounding("0"),
    Surrounding("1", (("TZ", "Pacific/Chatham"), ("LC_ALL", "tr_TR.UTF-8")), ("-O",)),
    Surrounding("random", (("TZ", "UTC"), ("LC_ALL", "C"))),
)


def main() -> int:
    """Record, replay, compare, report."""
    arguments = _arguments()
    recording = record(arguments.seed, arguments.extrinsics)
    if arguments.keep is not None:
        arguments.keep.write_bytes(TAPE.encode(recording.tape))
        print(f"replay: {recording.count} extrinsics kept, digest {digest(list(play(recording.tape)))}")
        return 0
    out = ROOT / "out"
    out.mkdir(exist_ok=True)
    tape = out / "replay.tape"
    tape.write_bytes(TAPE.encode(recording.tape))
    problems = tameness(recording)
    found = interpreters()
    problems += [
        f"NO PYTHON {version} ON THIS MACHINE: nothing shown for it" for version, at in found.items() if not at
    ]
    pythons = {version: python for version, python in found.items() if python}
    replays = {
        f"{version}/{around.hash_seed}": replay(python, around, tape)
        for (version, python), around in product(pythons.items(), SURROUNDINGS)
    }
    problems += differences(replays)
    line = _summary(recording, replays, len(pythons), holds=not problems)
    return ended(out / "replay.json", _report(recording, replays, problems), problems, line)


def tameness(recording: Recording) -> list[str]:
    """Return the reasons why the recording covers too little."""
    failing = 100 * recording.failures.total() // recording.count
    found = [f"no extrinsic calls {name}" for name in recording.missing()]
    if failing < FAILING_PERCENT_MIN or len(recording.failures) < ERRORS_MIN:
        found.append(f"only {failing} % of the extrinsics fail, with {len(recording.failures)} kinds of errors")
    return found


def replay(python: Path, around: Surrounding, tape: Path) -> list[str]:
    """Return the lines of a replay in its own process, or the reason of its failure."""
    environment = {**os.environ, **dict(around.variables), "PYTHONHASHSEED": around.hash_seed}
    command = [str(python), *around.options, "-m", "simulation.replay.play", str(tape)]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return ran.stdout.splitlines() if ran.returncode == 0 else [f"ended with {ran.returncode}: {ran.stderr[-2_000:]}"]


def differences(replays: dict[str, list[str]]) -> list[str]:
    """Return the differences of the replays to the first one, and the first one's own failure."""
    (first, expected), *others = replays.items()
    found = [f"{first} {line}" for line in expected if line.startswith("ended")]
    for name, lines in others:
        if lines != expected:
            pairs = zip(lines, expected, strict=False)
            line = next((got for got, wanted in pairs if got != wanted), "one is longer")
            found.append(f"{name} differs from {first}: {line}")
    return found


def digest(lines: list[str]) -> str:
    """Return the hash of all roots and events."""
    return blake2_256("\n".join(lines).encode()).hex()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m simulation.replay", description=__doc__)
    parser.add_argument("--extrinsics", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="write the recording there, print its digest, compare nothing")
    return parser.parse_args()


def _report(recording: Recording, replays: dict[str, list[str]], problems: list[str]) -> dict[str, Any]:
    return {
        "extrinsics": recording.count,
        "failing": recording.failures.total(),
        "blocks": len(recording.blocks),
        "calls": dict(sorted(recording.calls.items())),
        "errors": dict(sorted(recording.failures.items())),
        "events": dict(sorted(recording.events.items())),
        "digests": {name: digest(lines) for name, lines in replays.items()},
        "problems": problems,
    }


def _summary(recording: Recording, replays: dict[str, list[str]], pythons: int, *, holds: bool) -> str:
    digests = {digest(lines) for lines in replays.values()}
    return (
        f"replay {'holds' if holds else 'DOES NOT HOLD'}: {recording.count} extrinsics"
        f" ({100 * recording.failures.total() // recording.count} % failing, {len(recording.failures)} kinds of errors,"
        f" {len(recording.calls)} calls) in {len(recording.blocks)} blocks; {len(replays)} replays under {pythons}"
        f" Python versions and {len(SURROUNDINGS)} hash seeds: {len(digests)} digest {min(digests)[:16]}"
    )


if __name__ == "__main__":
    sys.exit(main())
