"""`python -m devnet.proofs.flood --seconds 30`: floods by one stranger at a time on a live devnet; 1 if a bar fails.

The bars, each against a quiet stretch of the same run: the interval between final blocks, how long an honest client
waits, memory that comes back, an attacker that is gone in time where it broke a rule, bounded logs, no node that ends.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import trio

from devnet.launcher import lifecycle, processes
from devnet.launcher.errors import DevnetError
from devnet.proofs.flood import network
from devnet.proofs.flood.catalogue import ATTACKS
from devnet.proofs.flood.course import Course
from devnet.proofs.flood.judging import BarResult, as_json
from devnet.proofs.flood.telling import Teller, last_line
from devnet.stage.report import write
from devnet.stage.scenario import chosen_from


def main(arguments: Sequence[str] | None = None) -> int:
    """A fresh devnet, the attacks, the judgement."""
    options = _parse(arguments)
    tell = Teller()
    findings: list[BarResult] = []
    with lifecycle.ending_on_signals():
        net = network.fresh(options.folder)
        try:
            network.start(net)
            tell.line(f"{len(net.members)} validators in {net.folder}; {len(options.attacks)} attacks")
            trio.run(Course(net, options.seconds, tell, findings, options.hog).run, options.attacks)
        finally:
            processes.stop(*lifecycle.all_processes(net))
            _write(findings, options.seconds, tell.seconds)  # of a run that was broken off as well
    tell.table(findings)
    print(last_line(findings, options.seconds, tell.seconds))
    return 1 if any(finding.misses for finding in findings) else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("devnet.proofs.flood", description="Flood a live devnet, one way after the other.")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each attack")
    named = chosen_from(ATTACKS, "attack")
    parser.add_argument("--attacks", type=named, default=list(ATTACKS.values()), help="only these, with commas")
    parser.add_argument("--hog", action="store_true", help="keep every processor busy beside each attack")
    parser.add_argument("--folder", type=Path, default=Path("out") / "flood", help="of the network; emptied first")
    return parser.parse_args(arguments)


def _write(findings: Sequence[BarResult], seconds: float, took: float) -> None:
    report: dict[str, Any] = {
        "seconds": seconds,
        "took_seconds": round(took),
        "missed": [finding.attack for finding in findings if finding.misses],
        "findings": [{"tries": ATTACKS[finding.attack].tries, **as_json(finding)} for finding in findings],
    }
    write("flood", report)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except DevnetError as failure:
        sys.exit(f"flood: {failure}")
