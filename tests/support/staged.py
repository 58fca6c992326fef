"""Tests as scenes: `async def` functions whose first argument is a stage, set up for each of them.

A file's decorator comes from `staged`. pytest supplies the other arguments.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

SECONDS_MAX = 120
"""The time limit of a scene."""

Scene = Callable[..., Awaitable[None]]


def staged(make: Callable[[Path], AbstractAsyncContextManager[Any]]) -> Callable[[Scene], Callable[..., None]]:
    """Return a decorator of tests. `make` gets a test's own folder, and returns its stage."""

    def decorate(scene: Scene) -> Callable[..., None]:
        _, *others = inspect.signature(scene).parameters.values()
        takes_folder = any(each.name == "tmp_path" for each in others)

        @functools.wraps(scene)
        def test(tmp_path: Path, **given: Any) -> None:
            async def main() -> None:
                async with make(tmp_path) as stage:
                    await scene(stage, **given, **({"tmp_path": tmp_path} if takes_folder else {}))

            asyncio.run(asyncio.wait_for(main(), SECONDS_MAX))

        folder = inspect.Parameter("tmp_path", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        asked = [folder, *(each for each in others if each.name != "tmp_path")]
        test.__signature__ = inspect.Signature(asked)  # type: ignore[attr-defined]  # pytest reads it
        del test.__wrapped__  # it has other arguments
        return test

    return decorate
