"""Commands of `ogpu` outside its groups: events, and the short forms that have options of their own."""

from __future__ import annotations

import click

from cli.options import key_option
from gpu_tasks.client.groups import limits
from gpu_tasks.client.groups.declared import (
    accept_option,
    after_options,
    anyway_option,
    buying_options,
    carried_out_by,
    checkpoints_option,
)
from gpu_tasks.client.groups.task import conversion_options

BLOCK_MAX = 2**32 - 1


@click.command()
@click.option("-w", "--watch", "is_followed", is_flag=True, help="Continue with new events until Ctrl-C.")
@click.option("--key", "key_text", metavar="KEY", help="Events of one account: key or address.")
@click.option("--task", "tasks", multiple=True, metavar="TASK", help="Events about a task; repeatable.")
@click.option("--unit", "units", multiple=True, metavar="UNIT", help="Events about a unit; repeatable.")
@click.option(
    "--from",
    "first",
    type=click.IntRange(0, BLOCK_MAX),
    metavar="BLOCK",
    help="First block.  [default: the newest 64; with -w the next]",
)
@carried_out_by("events:events")
def events() -> None:
    """Show the market's events as they become final.

    The command shows every event once, even if connections break. To continue an earlier run, give the block that it
    named at its end with --from.
    """


@click.command()
@conversion_options
@key_option
@click.option("--watch", "is_watched", is_flag=True, help="Follow the job to its end.")
@accept_option
@checkpoints_option
@anyway_option
@click.option("--array", "array_text", metavar="0-9[%4]", help="Indices.  [default: the script's --array]")
@click.option(
    "--requeue",
    type=click.IntRange(0, limits.REQUEUES_MAX),
    default=0,
    show_default=True,
    metavar="N",
    help="Resubmit after a time limit, up to N times.",
)
@after_options
@buying_options
@carried_out_by("sbatch:sbatch")
def sbatch() -> None:
    """Convert a Slurm script and submit it.

    The same as `ogpu task convert` and `ogpu task submit`. Options here replace those of the script. The command names
    each setting that no task has, shows the cost, and asks.
    """
