"""`python -m devnet.stage.cheating --mode MODE ...`: `ogpu-provider` with one dishonest step, else the same options.

Modes about units:

flip-bit              returns every output with one bit flipped
fewer-layers          skips the last layers of a language model
copied-result         computes nothing, copies a rival's commitment and reveal
replayed-attestation  sends the attestation of an earlier race again
late-reveal           reveals after the window
not-assigned          commits to and attests races of others

Modes about language models, with fewer-layers:

swapped-model         computes with other weights under the published model's name
four-bits             rounds the weights to 4 bits
other-seed            draws tokens from a seed of its own

Modes about tasks:

honest                does not cheat: the honest party beside a cheat
bit-in-one-weight     trains with one bit of one weight changed after one step
skipped-tenth         does not train in the last tenth of the steps
replayed-milestone    states its first milestone again, also as its second
withheld-checkpoint   shares neither its checkpoints nor its result and states
lazy-judge            repeats the provider's statement without computing
bent-outputs          runs a customer's program, and flips a bit of its outputs

Modes about batches with differing racers:

bent-middle           answers one request in the middle of a batch wrongly
hidden-tree           the same, and never shows its tree

Modes about the leaves of batches, with one answer or two equal ones:

one-wrong             answers one request wrongly
a-tenth-wrong         answers one request in ten wrongly
all-wrong             answers all requests wrongly
made-up-sums          states totals above the sums of its leaves
made-up-tokens        claims too many tokens beside a right leaf
padded                continues after the end of each output
cut-short             answers with half of each output
false-errors          reports good requests as invalid
withheld-leaves       answers all wrongly, and shows no leaf
lazy-auditor          passes the leaves of others without computing

Modes about roll calls:

made-up-rows          commits to rows that were never computed
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import click

from devnet.stage.cheating import daemons, executors, lies, races
from devnet.stage.cheating.daemons import with_duty, with_work
from devnet.stage.cheating.lies import BatchLie
from gpu_tasks.provider import cli
from gpu_tasks.provider.daemon import Daemon
from gpu_tasks.provider.duties.batch_disputes import DifferingDuty
from gpu_tasks.provider.duties.checks import CheckDuty
from gpu_tasks.provider.duties.race import RaceDuty
from gpu_tasks.provider.execution.bench import MakeExecutor
from gpu_tasks.provider.execution.sandbox import Sandbox
from gpu_tasks.provider.execution.worker_start import workers_with
from gpu_tasks.provider.tasks.judging_tasks import TaskJudgeDuty


@dataclass(frozen=True, slots=True)
class Cheat:
    """The changes that a cheat makes to an honest daemon and its workers."""

    change_daemon: Callable[[Daemon], None] = lambda _: None
    workers: Callable[[str, Sandbox | None], MakeExecutor] = workers_with

    def daemon(self, *parts: Any) -> Daemon:
        """Return a daemon that cheats."""
        cheating_daemon = Daemon(*parts)
        self.change_daemon(cheating_daemon)
        return cheating_daemon


UNIT_CHEATS = {
    "flip-bit": Cheat(workers=executors.flipping_workers),
    executors.FEWER_LAYERS: Cheat(workers=partial(executors.wrong_workers, executors.FEWER_LAYERS)),
    "copied-result": Cheat(with_duty(RaceDuty, races.CopyingRacing)),
    "replayed-attestation": Cheat(with_duty(RaceDuty, races.ReplayingRacing)),
    "late-reveal": Cheat(with_duty(RaceDuty, races.LateRacing)),
    "not-assigned": Cheat(daemons.attack_foreign_races),
}
"""Cheats about units."""
MODEL_CHEATS = {cheat: Cheat(workers=partial(executors.wrong_workers, cheat)) for cheat in executors.MODEL_CHEATS}
"""Cheats about language models. The one without the last layers is a cheat about units of the built-in model too."""
TASK_CHEATS = {
    "honest": Cheat(),
    "bit-in-one-weight": Cheat(workers=executors.bit_in_one_weight),
    "skipped-tenth": Cheat(workers=executors.skipped_tenth),
    "replayed-milestone": Cheat(with_work(daemons.ReplayingWork)),
    "withheld-checkpoint": Cheat(daemons.withhold_checkpoints),
    "lazy-judge": Cheat(with_duty(TaskJudgeDuty, daemons.LazyJudging)),
    "bent-outputs": Cheat(with_work(daemons.BendingWork)),
}
"""Cheats about tasks."""
ROLL_CALL_CHEATS = {"made-up-rows": Cheat(daemons.make_up_rows)}
DISPUTE_CHEATS = {
    "bent-middle": Cheat(workers=executors.bending_workers),
    "hidden-tree": Cheat(with_duty(DifferingDuty, daemons.HidingDuty), executors.bending_workers),
}
LIES_BY_MODE: dict[str, BatchLie] = {
    "one-wrong": lies.one_wrong,
    "a-tenth-wrong": lies.a_tenth_wrong,
    "all-wrong": lies.all_wrong,
    "made-up-sums": lies.totals_over_true_leaves,
    "made-up-tokens": lies.tokens_beside_a_true_leaf,
    "padded": lies.padded_outputs,
    "cut-short": lies.halved_outputs,
    "false-errors": lies.errors_for_good_requests,
    "withheld-leaves": lies.all_wrong,
}
"""Lies about batches: the false statement of each mode."""
HIDING_MODE = "withheld-leaves"
LAZY_MODE = "lazy-auditor"
LEAF_CHEATS = {
    name: Cheat(daemons.lie_about_batches(lie, hides_leaves=name == HIDING_MODE)) for name, lie in LIES_BY_MODE.items()
}
LEAF_CHEATS[LAZY_MODE] = Cheat(with_duty(CheckDuty, daemons.LazyChecking))
ALL_CHEATS = UNIT_CHEATS | MODEL_CHEATS | TASK_CHEATS | DISPUTE_CHEATS | ROLL_CALL_CHEATS | LEAF_CHEATS


def _run_cheat(mode: str, **options: Any) -> None:
    """Run the honest program with the cheat's parts, on a development network."""
    click_context = click.get_current_context()
    assert cli.main.callback is not None  # A click command has a callback.
    click_context.invoke(cli.main.callback, **options)
    chosen_cheat = ALL_CHEATS[mode]
    # A cheat trusts its own node and reads the best block, so it sees the commitments of rivals as early as possible.
    trust_options = replace(click_context.obj.trust, is_blind=True)
    click_context.obj = replace(
        click_context.obj, make_workers=chosen_cheat.workers, make_daemon=chosen_cheat.daemon, trust=trust_options
    )
    if not options["as_json"]:
        click.echo(f"CHEATING: {mode}. For development networks only.", err=True)


main = click.Group(
    name="cheating",
    commands=cli.main.commands,
    params=[
        click.Option(["--mode"], type=click.Choice(list(ALL_CHEATS)), required=True, help="What is dishonest."),
        *(param for param in cli.main.params if param.name != "version"),
    ],
    callback=_run_cheat,
    help=__doc__,
    context_settings={"help_option_names": ["-h", "--help"]},
)

if __name__ == "__main__":
    main()
