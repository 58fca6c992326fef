"""`ogpu-wallet` in this process, against a real RPC server with a played node behind it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from click.testing import CliRunner, Result

from cli import calls
from cli.wallet.program import main
from genesis.presets import load_spec
from genesis.spec import ChainSpec
from played_node import PlayedNode, served


@contextmanager
def chain(
    folder: Path, *, beat_seconds: float = 0.0, grows: Callable[[PlayedNode], bool] = lambda _: True
) -> Iterator[str]:
    """Run a played node that authors a block for each waiting call, and periodically while it `grows`.

    Yield its URL.
    """
    ready, done, url = threading.Event(), threading.Event(), ""

    async def serve() -> None:
        nonlocal url
        async with served(folder) as (node, port):
            url = f"ws://127.0.0.1:{port}"
            ready.set()
            now = asyncio.get_running_loop().time
            last = now()
            while not done.is_set():
                await asyncio.sleep(0.02)
                if node.pool or (beat_seconds and now() - last >= beat_seconds and grows(node)):
                    node.author()
                    last = now()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(30)
    try:
        yield url
    finally:
        done.set()
        thread.join()


def wallet(folder: Path, url: str, *arguments: str, typed: str = "", attended: bool = False) -> Result:
    """Run a command. `attended` simulates a user at the terminal who types `typed`."""
    options = ["--url", url, "--keyring", str(folder / "keys"), "--json"]
    with patch.object(calls, "is_attended", lambda: attended):
        return CliRunner().invoke(main, [*options, *arguments], input=typed)


def live_spec() -> ChainSpec:
    """Return the played chain's specification as that of a live chain, without Sudo."""
    spec = load_spec("dev")
    assert spec.patch is not None
    patch = {name: values for name, values in spec.patch.items() if name != "sudo"}
    return replace(spec, chain_type="Live", patch=patch)


def answer(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def said(result: Result, kind: str) -> list[str]:
    """Return a command's complaints of a kind, `error`s or `note`s, one object a line."""
    told = [json.loads(line) for line in result.stderr.splitlines()]
    return [one[kind] for one in told if kind in one]
