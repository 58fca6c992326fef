"""`ogpu`: buy GPU work: post units, submit tasks to auction, follow them, read their results, compare offers.

Exit codes: 0 success, 1 a refusal by the chain or the node, or an end without a result, 2 a mistake in the input.
"""

from __future__ import annotations

import click

from cli.deferred import runs
from cli.options import HELP_NAMES, key_option, session_options
from cli.program import ProgramGroup
from gpu_tasks.client.groups import container, limits  # noqa: F401  # it adds its commands to `task`
from gpu_tasks.client.groups.budget import budget, spend
from gpu_tasks.client.groups.declared import submission_options
from gpu_tasks.client.groups.foreign_words import FOREIGN_WORDS
from gpu_tasks.client.groups.model import model
from gpu_tasks.client.groups.offer import offer
from gpu_tasks.client.groups.session import chat, session
from gpu_tasks.client.groups.task import conversion_options, task
from gpu_tasks.client.groups.unit import unit
from gpu_tasks.models.errors import ModelError

SHORT_FORMS = {
    "run": "run",
    "ps": "list",
    "logs": "logs",
    "exec": "exec",
    "cp": "cp",
    "port-forward": "port-forward",
    "top": "top",
    "squeue": "list",
    "scancel": "cancel",
}
"""Commands of other systems that work here under the same name, and the commands of `ogpu task` that they are."""


@click.group(
    "ogpu",
    cls=ProgramGroup,
    context_settings=HELP_NAMES,
    program_commands=("run", "exec"),
    explained=(ModelError,),
    foreign_words=FOREIGN_WORDS,
    sections={"Short forms": [*SHORT_FORMS, "sbatch"]},
)
@session_options
@click.version_option(package_name="ogpu")
def main() -> None:
    """Buy GPU work: units of inference, training tasks and containers.

    Where a command takes an id, type the whole id or its first digits, such as 0x8a61.
    `last` is your newest unit, task or run.
    Amounts are in oGPU: 0.05 or "0.05 oGPU".

    Shell completion: eval "$(_OGPU_COMPLETE=bash_source ogpu)" (or zsh_source, fish_source).
    """


for command in (unit, task, offer, model, session, chat, budget, spend):
    main.add_command(command)
for short_form, task_command in SHORT_FORMS.items():
    main.add_command(task.commands[task_command], short_form)


@main.command()
@click.option("-w", "--watch", "is_followed", is_flag=True, help="Continue with new events until Ctrl-C.")
@click.option("--key", "key_text", metavar="KEY", help="Events of one account: key or address.")
@click.option("--task", "tasks", multiple=True, metavar="TASK", help="Events about a task; repeatable.")
@click.option("--unit", "units", multiple=True, metavar="UNIT", help="Events about a unit; repeatable.")
@click.option(
    "--from",
    "first",
    type=click.IntRange(0, limits.BLOCK_MAX),
    metavar="BLOCK",
    help="First block.  [default: the newest 64; with -w the next]",
)
@runs("gpu_tasks.client.commands.events:events")
def events() -> None:
    """Show the market's events as they become final.

    The command shows every event once, even if connections break. To continue an earlier run, give the block that it
    named at its end with --from.
    """


@main.command()
@conversion_options
@key_option
@click.option("--watch", "is_watched", is_flag=True, help="Follow the job to its end.")
@submission_options
@runs("gpu_tasks.client.commands.sbatch:sbatch")
def sbatch() -> None:
    """Convert a Slurm script and submit it.

    The same as `ogpu task convert` and `ogpu task submit`. Options here replace those of the script. The command names
    each setting that no task has, shows the cost, and asks.
    """


if __name__ == "__main__":
    main()
