"""Every command line of the documents parses: its commands, its options, their values."""

import re
import shlex
from pathlib import Path

import click
import pytest

from cli.wallet.program import main as ogpu_wallet
from devnet.launcher.cli import ogpu_devnet
from gpu_tasks.client.cli import main as ogpu
from gpu_tasks.provider.cli import main as ogpu_provider

ROOT = Path(__file__).parents[2]
DOCUMENTS = {
    "docs/customers.md": 8,
    "docs/models.md": 12,
    "docs/providers.md": 8,
    "docs/tasks.md": 3,
    "docs/workloads/README.md": 8,
    "docs/workloads/decoder-int8.md": 1,
    "docs/workloads/embed-int8.md": 1,
}
"""Documents with command lines, and their least numbers."""
PROGRAMS: dict[str, click.Command] = {
    "ogpu": ogpu,
    "ogpu-provider": ogpu_provider,
    "ogpu-wallet": ogpu_wallet,
    "ogpu-devnet": ogpu_devnet,
}
FENCED = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(document: str) -> list[str]:
    """The command lines in a document's fences, comments included, continued lines joined."""
    text = "\n".join(FENCED.findall((ROOT / document).read_text(encoding="utf-8"))).replace("\\\n", " ")
    lines = [line.rpartition(" | ")[2] for line in text.splitlines()]
    return [line for line in lines if line.partition(" ")[0] in PROGRAMS]


@pytest.mark.parametrize("line", [line for document in DOCUMENTS for line in commands(document)])
def test_a_documented_command_is_one(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("prompts.txt").write_text("import os\n")
    Path("examples").symlink_to(ROOT / "examples")
    program, *words = shlex.split(line, comments=True)
    command = PROGRAMS[program]
    context = command.make_context(program, words)
    assert isinstance(command, click.Group)
    name, chosen, rest = command.resolve_command(context, [*context._protected_args, *context.args])
    assert chosen is not None
    with chosen.make_context(name, rest, parent=context):
        pass


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documents_show_commands(document: str) -> None:
    assert len(commands(document)) >= DOCUMENTS[document]
