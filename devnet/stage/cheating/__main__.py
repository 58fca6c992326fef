"""`python -m devnet.stage.cheating --mode MODE ...`: `ogpu-provider` with one dishonest step, else the same options.

Modes about units:

flip-bit              returns every output with one bit flipped
copied-result         computes nothing, copies a rival's commitment and reveal
replayed-attestation  sends the attestation of an earlier race again
late-reveal           reveals after the window
not-assigned          commits to and attests races of others

Modes about language models:

fewer-layers          skips the last layers
swapped-model         computes with other weights under the published model's name
four-bits             rounds the weights to 4 bits
other-seed            draws tokens from a seed of its own

Modes about tasks:

honest                does not cheat: the honest party beside a cheat
bit-in-one-weight     trains with one bit of one weight changed after one step
skipped-tenth         does not train in the last tenth of the steps
replayed-milestone    states its first milestone again, also as its second
withheld-checkpoint   shares neither its checkpoints nor its result and states
bent-outputs          runs a customer's program, and flips a bit of its outputs

Modes about results of units, single ones and batches, with invented samples of each false result:

one-wrong             answers one request wrongly
hidden-answers        the same, and delivers to no checker or voter
all-wrong             answers all requests wrongly
made-up-sums          states totals above the sums of its items
padded                continues after the end of each output
cut-short             answers with half of each output
false-errors          reports good requests as invalid
withheld-delivery     answers rightly, and delivers to no checker or voter
withheld-samples      answers rightly, and shows no samples
made-up-samples       answers rightly, and shows invented samples

Modes about checks of others' results:

accusing-checker      calls every result wrong
copying-checker       computes nothing, and states the provider's items with invented fingerprints
deaf-checker          calls every result unavailable
conceding-checker     calls every result wrong, and concedes
silent-checker        does not commit
unopened-checker      commits, and does not open

Modes about sessions:

wrong-tokens          changes each token
other-model           computes a model without its last layers
padded-tokens         continues after the end of an answer
stops                 falls silent amid an answer
forged-vouchers       claims by vouchers that nobody signed, by an old one, and again

Modes about roll calls:

made-up-rows          states rows that were never computed
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import click

from devnet.stage.cheating import daemons, executors, lies, races, session_cheats
from devnet.stage.cheating.daemons import with_checking, with_duty, with_work
from devnet.stage.cheating.lies import BatchLie
from gpu_tasks.provider import cli
from gpu_tasks.provider.daemon import Daemon
from gpu_tasks.provider.duties.race import RaceDuty
from gpu_tasks.provider.execution.bench import MakeExecutor
from gpu_tasks.provider.execution.sandbox import Sandbox
from gpu_tasks.provider.execution.worker_start import workers_with


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


FLIP_BIT = "flip-bit"
WORKER_CHEATS = {FLIP_BIT: Cheat(workers=executors.flipping_workers)}
RACE_CHEATS = {
    "copied-result": Cheat(with_duty(RaceDuty, races.CopyingRacing)),
    "replayed-attestation": Cheat(with_duty(RaceDuty, races.ReplayingRacing)),
    "late-reveal": Cheat(with_duty(RaceDuty, races.LateRacing)),
    "not-assigned": Cheat(daemons.attack_foreign_races),
}
"""Cheats about races of units."""
MODEL_CHEATS = {cheat: Cheat(workers=partial(executors.wrong_workers, cheat)) for cheat in executors.MODEL_CHEATS}
"""Cheats about language models."""
TASK_CHEATS = {
    "honest": Cheat(),
    "bit-in-one-weight": Cheat(workers=executors.bit_in_one_weight),
    "skipped-tenth": Cheat(workers=executors.skipped_tenth),
    "replayed-milestone": Cheat(with_work(daemons.ReplayingWork)),
    "withheld-checkpoint": Cheat(daemons.withhold_checkpoints),
    "bent-outputs": Cheat(with_work(daemons.BendingWork)),
}
"""Cheats about tasks."""
FALSE_TASK_MODES = frozenset({"bit-in-one-weight", "skipped-tenth", "withheld-checkpoint"})
"""The modes in which results of tasks are false, or nobody gets them."""
SESSION_CHEATS = {
    "wrong-tokens": Cheat(session_cheats.wrong_tokens),
    "other-model": Cheat(session_cheats.other_model),
    "padded-tokens": Cheat(session_cheats.padded_tokens),
    "stops": Cheat(session_cheats.stopping),
    session_cheats.FORGING_MODE: Cheat(session_cheats.forge_vouchers),
}
"""Cheats about sessions."""
ROLL_CALL_CHEATS = {"made-up-rows": Cheat(daemons.make_up_rows)}
HIDING_MODE = "hidden-answers"
LIES_BY_MODE: dict[str, BatchLie] = {
    "one-wrong": lies.one_wrong,
    HIDING_MODE: lies.one_wrong,
    "all-wrong": lies.all_wrong,
    "made-up-sums": lies.totals_over_true_leaves,
    "padded": lies.padded_outputs,
    "cut-short": lies.halved_outputs,
    "false-errors": lies.errors_for_good_requests,
}
"""Lies about results: the false statement of each mode."""
RESULT_CHEATS = {
    **{
        mode: Cheat(daemons.lie_about_results(lie, is_withheld=mode == HIDING_MODE))
        for mode, lie in LIES_BY_MODE.items()
    },
    "withheld-delivery": Cheat(daemons.withhold_deliveries),
    "withheld-samples": Cheat(with_checking(daemons.WithholdingSamples)),
    "made-up-samples": Cheat(with_checking(daemons.InventingSamples)),
}
"""Cheats of providers about results, their items and their samples."""
DEAF_MODE, COPYING_MODE = "deaf-checker", "copying-checker"
CHECKER_CHEATS = {
    "accusing-checker": Cheat(with_checking(daemons.AccusingChecking)),
    COPYING_MODE: Cheat(with_checking(daemons.CopyingChecking)),
    DEAF_MODE: Cheat(with_checking(daemons.DeafChecking)),
    "conceding-checker": Cheat(with_checking(daemons.ConcedingChecking)),
    "silent-checker": Cheat(with_checking(daemons.SilentChecking)),
    "unopened-checker": Cheat(with_checking(daemons.UnopenedChecking)),
}
"""Cheats about checks of others' results."""
FALSE_MODES = frozenset({FLIP_BIT, *RESULT_CHEATS})
"""The modes in which every result is false, or its items or samples are withheld or false."""
ALL_CHEATS = (
    WORKER_CHEATS
    | RACE_CHEATS
    | MODEL_CHEATS
    | TASK_CHEATS
    | SESSION_CHEATS
    | ROLL_CALL_CHEATS
    | RESULT_CHEATS
    | CHECKER_CHEATS
)


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
