"""What a provider tells about its own work: a small interface, so that other ways (MQTT) can be added.

Always: telemetry never holds up or fails the work; no event holds a prompt, a completion, a salt or a key.
"""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Any, Protocol, TextIO

from wallet.errors import harmless
from wallet.private_file import own_opener

LOG = logging.getLogger("ogpu.provider")
TELEMETRY_FILE = "telemetry.jsonl"
"""In the base path."""
FILE_BYTES_MAX = 32 * 1024 * 1024
TEXT_SHOWN = 400

Detail = str | int | bytes | None


class Telemetry(Protocol):
    """Takes events."""

    def tell(self, event: str, **fields: Detail) -> None:
        """Something happened; bytes are shown as hexadecimal."""
        ...


class HarmlessFormatter(logging.Formatter):
    """Lines of a log without what a terminal would take for a command: nodes, peers and customers write parts of it."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        """One line, whatever is in the text."""
        return harmless(super().formatMessage(record)).replace("\n", " ")

    def formatException(self, ei: Any) -> str:  # noqa: N802  # logging's name
        """Every line of a traceback is moved in, so that no text in it looks like an entry of its own."""
        return "  " + harmless(super().formatException(ei)).replace("\n", "\n  ")


class LogTelemetry:
    """Events as lines of the program's log."""

    def tell(self, event: str, **fields: Detail) -> None:
        """One line at level INFO; events that need somebody's attention have a `problem` and are warnings."""
        level = logging.WARNING if "problem" in fields else logging.INFO
        LOG.log(level, "%s %s", event, " ".join(f"{name}={shown(value)}" for name, value in fields.items()))


class JsonLinesTelemetry:
    """Events as JSON objects, one a line, in a file that is started anew when it is full (one old file is kept)."""

    def __init__(self, path: Path) -> None:
        """Appends to `path`."""
        self._path = path
        self._file = self._opened()

    def tell(self, event: str, **fields: Detail) -> None:
        """Write the event; a full disk costs the event, not the work."""
        line = {"at_ms": time.time_ns() // 1_000_000, "event": event}
        line |= {name: value.hex() if isinstance(value, bytes) else value for name, value in fields.items()}
        try:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
            if self._file.tell() > FILE_BYTES_MAX:
                self._file.close()
                self._path.replace(self._path.with_suffix(".old.jsonl"))
                self._file = self._opened()
        except OSError as error:
            LOG.warning("telemetry is not written: %s", error)

    def _opened(self) -> TextIO:
        return open(self._path, "a", encoding="utf-8", opener=own_opener)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Telling:
    """Several at once."""

    def __init__(self, *parts: Telemetry) -> None:
        """Tells each of `parts`."""
        self._parts = parts

    def tell(self, event: str, **fields: Detail) -> None:
        """Tell all."""
        for part in self._parts:
            part.tell(event, **fields)


def shown(value: Detail) -> str:
    """A value for one line of a log: peers and customers write some of them, so nothing in it can look like a line."""
    if isinstance(value, bytes):
        return f"0x{value[:4].hex()}.."
    return "".join(letter if letter.isprintable() else " " for letter in str(value)[:TEXT_SHOWN])
