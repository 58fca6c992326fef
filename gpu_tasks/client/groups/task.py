"""`ogpu task`: write and submit task files, follow tasks, decide about them."""

from __future__ import annotations

from pathlib import Path

import click

from cli.deferred import runs
from cli.options import OneOf, add_options, key_option, reading_key_option, sending_options
from cli.program import CommandGroup
from gpu_tasks.client.groups import limits
from gpu_tasks.client.groups.declared import (
    BLOCKS_OR_TIME,
    FILE_PATH,
    DurationRange,
    account_option,
    checkpoints_option,
    force_option,
    max_price_option,
    mqtt_option,
    out_option,
    secret_option,
    submission_options,
)

BLOCKS_LOOKED_AT = 256
BLOCKS_LOOKED_AT_MAX = 100_000
SAMPLE_BYTES = 200
SAMPLE_BYTES_MAX = 10_000
SECTIONS = {
    "Submit": ("run", "submit", "check", "plan", "convert", "schema"),
    "Follow": ("list", "history", "show", "watch", "result", "sample", "logs", "top", "bids", "verify"),
    "Enter the container": ("exec", "cp", "port-forward", "secrets"),
    "Decide": ("dispute", "appeal", "stop", "cancel", "confirm"),
}
file_argument = click.argument("file", type=FILE_PATH)


@click.group(cls=CommandGroup, sections=SECTIONS)
def task() -> None:
    """Training runs and containers, sold by auction."""


@task.command()
@file_argument
@runs("gpu_tasks.client.commands.tasks:check")
def check() -> None:
    """Check a task file, without a node.

    The command shows what the file asks for, or lists all its mistakes.
    """


@task.command()
@click.option(
    "--kind",
    type=OneOf(limits.TASK_KINDS),
    default=limits.TASK_KINDS[0],
    show_default=True,
    help="Kind of file.",
)
@runs("gpu_tasks.client.commands.tasks:schema", with_options=False)
def schema() -> None:
    """Print the JSON Schema of task files."""


@task.command()
@file_argument
@click.option("--key", "key_text", metavar="KEY", help="Submitter, to check funds and leave out own devices.")
@runs("gpu_tasks.client.commands.tasks:plan")
def plan() -> None:
    """Show who could run a task, its cost and its start.

    Nothing is sent to the chain. The command lists the devices that cannot run the task, with the reason, and asks the
    eligible providers whether they accept it. Exit code 1: no device is eligible, or too few providers accept.
    """


@task.command()
@file_argument
@key_option
@click.option("--watch", "is_watched", is_flag=True, help="Follow the task to its end and confirm its checkpoints.")
@secret_option
@submission_options
@runs("gpu_tasks.client.commands.submit:submit")
def submit() -> None:
    """Submit a task file to auction.

    The command seals and stores the input, shows the cost, and asks. The same command never buys a task, or a member
    of an array, twice. It continues the earlier task, and after that task's end it says so. --again buys another.

    A member of an array finds its index in OGPU_ARRAY_INDEX. % and --requeue need --watch.
    """


@task.command("list")
@account_option
@click.option("--all", "is_all", is_flag=True, help="Include tasks that have ended, until the chain forgets them.")
@runs("gpu_tasks.client.commands.auctions:list_tasks")
def list_tasks() -> None:
    """List the open tasks of a key, with the reason of a wait."""


@task.command()
@account_option
@click.option("--since", type=BLOCKS_OR_TIME, metavar="BLOCK|TIME", help="Tasks since this block, or for this time.")
@click.option("--state", "states", multiple=True, type=OneOf(limits.HISTORY_STATES), help="State; repeatable.")
@runs("gpu_tasks.client.commands.auctions:history")
def history() -> None:
    """List past tasks of a key: exit code, time and cost.

    The chain forgets old tasks. The cost excludes the transaction fee. A blank cost means that only `ogpu task show`
    can find it.
    """


@task.command()
@click.argument("task")
@click.option("--key", "key_text", metavar="KEY", help="Customer's key: also show what providers report.")
@mqtt_option
@click.option(
    "--listen",
    default="12s",
    show_default=True,
    type=DurationRange(0.5, 600),
    help="With --key: listen this long at most.",
)
@runs("gpu_tasks.client.commands.auctions:show_task")
def show() -> None:
    """Show a task: its state, terms, providers and payments.

    With the customer's --key it shows also what the providers report. Nothing proves that part.
    """


@task.command()
@click.argument("task")
@key_option
@checkpoints_option
@secret_option
@runs("gpu_tasks.client.commands.task_runs:watch_task")
def watch() -> None:
    """Follow a task until it ends.

    With the customer's key the command also confirms the task's checkpoints, so that its milestones count, and hands
    its secrets over.
    """


@task.command()
@click.argument("task")
@reading_key_option("opens the result")
@out_option
@force_option
@click.option("--place", type=click.IntRange(0, limits.SLOTS_MAX - 1), help="Output of this replica, counted from 0.")
@click.option("--export", type=FILE_PATH, metavar="FILE", help="Write the trained model: .safetensors or .npz.")
@runs("gpu_tasks.client.commands.task_runs:task_result")
def result() -> None:
    """Fetch and check the result of a task.

    With --out it writes the last state of a training run, or a program's outputs as a tar archive. --export writes the
    trained model for other programs, as 32-bit floats.
    """


@task.command()
@click.argument("source", metavar="TASK|FILE")
@click.option("--key", "key_text", metavar="KEY", help="Customer's key, for a TASK.")
@click.option("--prompt", required=True, metavar="TEXT", help="Text that the model continues.")
@click.option(
    "--max-tokens",
    type=click.IntRange(1, SAMPLE_BYTES_MAX),
    default=SAMPLE_BYTES,
    show_default=True,
    help="Bytes to add.",
)
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), default=0, show_default=True, help="Number that decides.")
@runs("gpu_tasks.client.commands.sample:sample")
def sample() -> None:
    """Continue a text with the model that a task trained.

    The source is a task, or a .safetensors file that `ogpu task result --export` wrote. This machine computes the text.
    The same model, prompt and seed give the same text everywhere.

    The built-in workload trains a model of bytes that reads at most the last 16.
    """


@task.command()
@click.argument("task")
@click.option(
    "--blocks",
    type=click.IntRange(0, BLOCKS_LOOKED_AT_MAX),
    default=BLOCKS_LOOKED_AT,
    show_default=True,
    help="Most blocks to search for signed statements.",
)
@runs("gpu_tasks.client.commands.auctions:verify")
def verify() -> None:
    """Verify a task again from the chain alone.

    The command checks id, terms, awards, milestones, result, outcome and statements. The node proves every record and
    block. Exit code 1: something breaks the rules.
    """


@task.command()
@click.argument("task")
@click.option("--explain", is_flag=True, help="Say why each bid won or lost.")
@click.option("--auction", type=click.IntRange(1), help="Number of the auction.  [default: the newest]")
@runs("gpu_tasks.client.commands.auctions:bids")
def bids() -> None:
    """List the bids for a task, winners first.

    A score is the sum of price, time and risk.
    """


@task.command()
@click.argument("task")
@reading_key_option("opens the reports")
@mqtt_option
@click.option("-f", "--follow", is_flag=True, help="Continue until the task ends.")
@click.option("--place", type=click.IntRange(0), help="After the end: lines of this slot only.")
@runs("gpu_tasks.client.commands.logs:logs")
def logs() -> None:
    """Show the output and progress of a task.

    Its providers report them, and only the customer's key opens them. The command says if a broker forges, replays,
    withholds or delays a report. After a program's end it fetches the last lines with the outputs. Nothing proves
    these reports.
    """


@task.command()
@click.argument("tasks", nargs=-1)
@reading_key_option("opens the reports")
@mqtt_option
@click.option("--once", is_flag=True, help="Listen for twelve seconds, print one table, and end.")
@runs("gpu_tasks.client.commands.logs:top")
def top() -> None:
    """Show progress and device use of running tasks.

    Without TASKS it shows all tasks of the key. State and milestones come from the chain. Providers report the rest:
    nothing proves it, and no payment depends on it.
    """


@task.command()
@click.argument("task")
@key_option
@checkpoints_option
@sending_options
@runs("gpu_tasks.client.commands.task_decisions:confirm")
def confirm() -> None:
    """Check, keep and sign the newest checkpoint of a task.

    Its milestone counts then. `ogpu task watch` and `ogpu task submit --watch` do this without being asked.
    """


@task.command()
@click.argument("task")
@key_option
@click.option("--place", type=click.IntRange(0, limits.SLOTS_MAX - 1), help="Provider of a gang, counted from 0.")
@click.option("--item", type=click.IntRange(0, limits.SEGMENTS_MAX - 1), help="The wrong item, counted from 0.")
@click.option("--compute", "is_computed", is_flag=True, help="Recompute the run here; dispute its first wrong item.")
@click.option("--backend", default="numpy", show_default=True, help="numpy, reference, or torch-<device>.")
@sending_options
@runs("gpu_tasks.client.commands.task_dispute:dispute_task")
def dispute() -> None:
    """Dispute a result whose payment waits for a check.

    An item is a segment of the run, counted from the start of the provider's own work. Name it with --item, or let the
    customer's --compute find it. A result with one item needs neither option. The command shows the bond and each
    outcome, and asks.

    Validators vote. You lose the bond if the item is right. If it is wrong, price and bond come back, and an early
    disputer gets a reward.

    Start --compute while the task runs: it waits for the result, and a claim may be over a minute later.
    """


@task.command()
@click.argument("task")
@key_option
@sending_options
@runs("gpu_tasks.client.commands.task_dispute:appeal")
def appeal() -> None:
    """Appeal against the votes about a task.

    All eligible validators vote then, once. A party or an outvoted voter may appeal. It needs no bond.
    """


@task.command()
@click.argument("task")
@key_option
@sending_options
@runs("gpu_tasks.client.commands.task_decisions:stop")
def stop() -> None:
    """Stop a running task.

    You pay for the elapsed time, and 5 % of the price out of your bond. For a job or a lease you pay the whole running
    interval. Its container ends at once, and the files in it are lost.
    """


@task.command()
@click.argument("tasks", nargs=-1, required=True, metavar="TASK...")
@key_option
@sending_options
@runs("gpu_tasks.client.commands.cancel:cancel_tasks")
def cancel() -> None:
    """Cancel tasks that do not run yet.

    The command shows the cost and asks. A tenth of the bond burns before the award, all of it after. One call cancels
    several tasks: all of them, or none if one can no longer be cancelled.
    """


conversion_options = add_options(
    file_argument,
    click.option("--image", metavar="NAME@sha256:…", help="Image by digest.  [default: the file's]"),
    click.option("--archive", type=FILE_PATH, help="`docker save` archive of the image; --image is its id."),
    max_price_option,
    click.option(
        "--class", "classes", multiple=True, type=OneOf(limits.CLASS_NAMES), help="Class of devices; repeatable."
    ),
    click.option(
        "--env",
        "variables",
        multiple=True,
        metavar="NAME[=VALUE]",
        help="Variable, public to bidders; repeatable.",
    ),
    # Empty: the file's own value holds, or else the task's default.
    click.option("--time", default="", help="Time to buy, such as 2h.  [default: the file's, or 1h]"),
    click.option("--cpu", default="", help="Cores.  [default: the file's, or 1]"),
    click.option("--memory", default="", help="Memory, such as 2Gi.  [default: the file's, or 512Mi]"),
    click.option("--disk", default="", help="Size of /workspace.  [default: the file's, or 64Mi]"),
    click.option("--processes", default="", help="Processes and threads.  [default: the file's, or 128]"),
    click.option("--network", type=OneOf(limits.NETWORKS), default="none", show_default=True, help="Network access."),
    click.option("--strict", is_flag=True, help="Fail if the program would run differently."),
)
"""The options that convert another system's file."""


@task.command()
@conversion_options
@click.option("--from", "form", type=OneOf(limits.FOREIGN_FORMS), help="Form of FILE.  [default: by content]")
@click.option("--service", help="Service of a Compose or Akash file with several.")
@click.option("--job", "is_job", is_flag=True, help="Make a job, which ends with its program, not a lease.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Task file.  [default: standard output]")
@force_option
@runs("gpu_tasks.client.commands.converters:convert")
def convert() -> None:
    """Convert a Slurm, Compose or Akash file to a task file.

    A Slurm script becomes a job, with the script as its input. A service of a Compose or Akash file becomes a lease.
    The command names each setting that no task has, with the reason. `!` marks a loss that changes how the program
    runs.

    --env NAME without a value takes the variable from your environment. Amounts in an Akash file are another chain's,
    so --max-price is required.
    """
