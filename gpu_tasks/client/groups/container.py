"""`ogpu task`, programs in containers: run one, enter it, copy files, forward ports, hand secrets over."""

from __future__ import annotations

from typing import Any

import click

from cli.deferred import runs
from cli.options import OneOf, anyway_option, key_option, reading_key_option
from cli.program import ExplainingCommand
from gpu_tasks.client.groups import limits
from gpu_tasks.client.groups.declared import (
    FILE_PATH,
    after_options,
    buying_options,
    max_price_option,
    secret_option,
)
from gpu_tasks.client.groups.task import task

GPU_ADVICE = "A task names a class of GPUs. `ogpu offer search 'model=4090'` shows which class a model is in."


tunnel_key_option = reading_key_option("enters the container")


class ProgramCommand(ExplainingCommand):
    """A command whose last argument takes the words of a program.

    An unknown option before the program's first word is an error. Behind that word, or behind `--`, every word is the
    program's.
    """

    def __init__(self, *args: Any, before: int = 0, **kwargs: Any) -> None:
        """`before`: the number of ogpu's own words that precede the program's."""
        super().__init__(*args, **kwargs)
        self._own_word_count = before

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options before the program's first word."""
        return super().parse_args(ctx, self._with_program_mark(ctx, args))

    def _with_program_mark(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert a `--` before the program's first word."""
        value_counts = {
            option_name: option.nargs
            for option in self.get_params(ctx)
            if isinstance(option, click.Option) and not option.is_flag and not option.count
            for option_name in option.opts
        }
        position, word_count = 0, 0
        while position < len(args) and (typed_word := args[position]) != "--":
            # A lone dash is a word: it names standard input.
            if typed_word.startswith("-") and len(typed_word) > 1:
                position += 1 + value_counts.get(typed_word, 0)
                continue
            word_count += 1
            # As in `docker run`: an option behind the program's first word is the program's.
            if word_count > self._own_word_count:
                return [*args[:position], "--", *args[position:]]
            position += 1
        return args


@task.command(cls=ProgramCommand)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@key_option
@click.option(
    "--image", required=True, envvar="OGPU_IMAGE", show_envvar=True, metavar="NAME@sha256:…", help="Image by digest."
)
@click.option("--archive", type=FILE_PATH, help="`docker save` archive of the image; --image is its id.")
@max_price_option
@click.option("--gpu", type=OneOf(limits.GPU_CHOICES, GPU_ADVICE), help="Class of the GPU.  [default: no GPU]")
# Empty: the default of task files holds.
@click.option("--cpu", default="", help="Cores.  [default: 1]")
@click.option("--memory", default="", help="Memory, such as 2Gi.  [default: 512Mi]")
@click.option("--disk", default="", help="Size of /workspace.  [default: 64Mi]")
@click.option("--time", default="1h", show_default=True, help="Time limit, such as 30m; unused time is not paid.")
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="Variable, public to bidders.")
@click.option("--in", "inputs", multiple=True, type=FILE_PATH, help="File to put into /in; repeatable.")
@click.option("--network", type=OneOf(limits.NETWORKS), default="none", show_default=True, help="Network access.")
@click.option("--copies", default="", metavar="3|5|7", help="Replicas; the majority decides the result.")
@click.option("--name", default="run", show_default=True, help="Name of the task, kept on this machine.")
@click.option("--out", type=FILE_PATH, help="Write /out to this tar archive.")
@click.option("--force", is_flag=True, help="Overwrite the file of --out.")
@click.option("--save", type=FILE_PATH, help="Write the task file too.")
@click.option("--detach", is_flag=True, help="Submit, print the id, and do not wait.")
@anyway_option
@secret_option
@after_options
@buying_options
@runs("gpu_tasks.client.commands.run:run")
def run() -> None:
    """Run a command in a container on a provider's device.

    The command's output appears here, and its exit code becomes ogpu's. It is a job as in a task file: auctioned, and
    paid interval by interval until it ends. The same command never buys the job twice. It continues the earlier job,
    and after that job's end it says so.
    """


@task.command("exec", cls=ProgramCommand, before=1)
@click.argument("task")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@tunnel_key_option
@click.option("--no-tty", is_flag=True, help="Allocate no terminal, as for a pipe.")
@runs("gpu_tasks.client.commands.shell:execute")
def execute() -> None:
    """Run a command, or a shell, in a task's container.

    Without COMMAND it runs a shell on this terminal. The command's exit code becomes ogpu's. Only the customer's key
    gets in. The program ends with the connection.
    """


@task.command()
@click.argument("source")
@click.argument("target")
@tunnel_key_option
@runs("gpu_tasks.client.commands.shell:cp")
def cp() -> None:
    """Copy files into or out of a task's container.

    Into it: FILE TASK:/workspace. Out of it: TASK:/workspace/FILE FOLDER. TARGET is a folder; in the container it lies
    under /workspace or /out. The command overwrites no file on this machine, and skips links.
    """


@task.command("port-forward")
@click.argument("task")
@click.argument("ports", nargs=-1, required=True, metavar="LOCAL:REMOTE...")
@tunnel_key_option
@runs("gpu_tasks.client.commands.shell:port_forward")
def port_forward() -> None:
    """Forward local ports to a task's container.

    Ctrl-C ends it. The task file declares REMOTE in spec.run.ports. LOCAL 0 is any free port.
    """


@task.command()
@click.argument("task")
@click.argument("names", nargs=-1, required=True, metavar="NAME[=FILE]...")
@tunnel_key_option
@runs("gpu_tasks.client.commands.shell:secrets")
def secrets() -> None:
    """Hand its secrets to a waiting task.

    Name all secrets of the task file in one command. A value comes from the environment variable NAME, or from FILE.
    It goes through the tunnel to the provider that runs the task. The program finds it in /secrets/NAME, in memory
    only. `ogpu task submit --watch` hands secrets over without being asked.
    """
