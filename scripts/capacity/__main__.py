"""The total claims of fake devices on one machine: a line for each number. Exits with 1 above 1.2 times the machine."""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from runtime.encoding.types import GRAINS_PER_OGPU
from scripts.capacity.crowd import RATE_MIN, Outcome, outcome, shape_of

MACHINE = 100 * RATE_MIN
COUNTS = (1, 10, 100, 1_000)
OUT = Path("out/capacity.json")


def main() -> None:
    """Play two kinds of work for each number: the least of a class, and a fair share of the machine's power."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--devices", type=int, nargs="*", default=COUNTS)
    found: list[Outcome] = []
    print("devices  owners  machine  work at first  may work  claim together  proven together  blocks  lost (oGPU)")
    for count in arguments.parse_args().devices:
        for rate in sorted({RATE_MIN, max(1, MACHINE * 11 // (10 * count))}):
            one = outcome(count, MACHINE, shape_of(rate))
            found.append(one)
            *figures, lost = asdict(one).values()
            print("  ".join(f"{figure:>7}" for figure in figures), f"{lost / GRAINS_PER_OGPU:>10.1f}", flush=True)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n")
    if any(5 * max(one.claimed, one.proven) > 6 * one.machine for one in found):
        sys.exit("devices hold more than 1.2 times what their machine computes")


if __name__ == "__main__":
    main()
