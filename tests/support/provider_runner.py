"""`ogpu-provider` in the test's process, against a real RPC server with a played node behind it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from gpu_tasks.provider.cli import main
from played_node import served


@contextmanager
def played_chain(folder: Path) -> Iterator[str]:
    """The development chain of a node that authors a block whenever something waits; gives its URL."""
    ready, done, url = threading.Event(), threading.Event(), ""

    async def serve() -> None:
        nonlocal url
        async with served(folder) as (node, port):
            url = f"ws://127.0.0.1:{port}"
            ready.set()
            while not done.is_set():
                await asyncio.sleep(0.02)
                if node.pool:
                    node.author()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(30)
    try:
        yield url
    finally:
        done.set()
        thread.join()


class Operator:
    """Somebody at the command line of one provider; a key file's passwords are nobody's business here."""

    def __init__(self, folder: Path, url: str, name: str) -> None:
        self.folder = folder
        self.options = ["--url", url, "--key", f"//{name}//provider", "--base-path", str(folder / name)]
        self.name = name

    def run(self, *arguments: str, as_json: bool = True) -> Result:
        """What a command does."""
        options = [*self.options, *(["--json"] if as_json else [])]
        return CliRunner(env={"OGPU_KEYRING": str(self.folder / "keys")}).invoke(main, [*options, *arguments])

    def answer(self, *arguments: str) -> Any:
        """The JSON of a command that succeeds."""
        result = self.run(*arguments)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def refusal(self, *arguments: str, code: int = 2) -> str:
        """The sentence of a command that does not."""
        result = self.run(*arguments)
        assert result.exit_code == code, result.output
        assert result.stderr.startswith(("error: ", "Usage: ")), result.stderr
        return result.stderr
