"""`python -m devnet.proofs.auction`: tasks at auction on a live devnet of five; exit 1 if a bar fails.

The bars are in `judging`; beside them `ogpu plan` must refuse a task that nobody can serve, and say why.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from devnet.demo.telling import Narrator
from devnet.launcher import lifecycle as network
from devnet.launcher.errors import DevnetError
from devnet.measuring.choice import chosen_from
from devnet.proofs.auction import course, telling
from devnet.proofs.auction.scenes import SCENES, TaskScene

VALIDATORS = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """A fresh devnet, one scene after the other; 0 if every bar held."""
    options = _parse(arguments)
    scenes: list[TaskScene] = options.scenes
    tell = Narrator(2 + len(scenes))
    with network.ending_on_signals():
        net = None
        try:
            tell.step(f"Network: {options.validators} validators, each with a GPU provider; three of them bid")
            net = course.fresh(options.folder, options.validators, tell)
            course.let_everybody_bid(net, tell)
            findings = [course.play(net, scene, tell) for scene in scenes]
            refusal = course.refused(net, tell)
        finally:
            if net is not None:
                network.down(net)
    return telling.finish(findings, refusal, options.validators, tell)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("devnet.proofs.auction", description="Tasks at auction, whoever dies on the way.")
    parser.add_argument("--validators", type=int, default=VALIDATORS, help="of the network, each a provider too")
    scenes = {scene.name: scene for scene in SCENES}
    chosen, names = chosen_from(scenes, "scene"), ", ".join(scenes)
    parser.add_argument("--scenes", type=chosen, default=list(SCENES), help=f"only these, with commas: {names}")
    parser.add_argument("--folder", type=Path, default=Path("out") / "auction", help="of the network; emptied first")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except DevnetError as failure:
        sys.exit(f"auction: {failure}")
