"""A provider's telemetry about its own work: a small interface for outputs such as a log, a file or MQTT.

Invariants: telemetry never delays or fails the work, and no event contains a prompt, a completion, a salt or a key.
"""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Any, Protocol, TextIO

from wallet.errors import code_of, harmless
from wallet.private_file import own_opener

LOG = logging.getLogger("ogpu.provider")
TELEMETRY_FILE = "telemetry.jsonl"
"""The file's name in the base path."""
FILE_BYTES_MAX = 32 * 1024 * 1024
TEXT_SHOWN = 400

Detail = str | int | bytes | None


def failure(error: Exception) -> dict[str, Detail]:
    """Return the fields of an event about an error: its text, and its code for programs that read the events."""
    return {"problem": str(error), "code": code_of(error)}


class Telemetry(Protocol):
    """A receiver of events."""

    def tell(self, event: str, **fields: Detail) -> None:
        """Report an event. Bytes appear as hexadecimal."""
        ...


class HarmlessFormatter(logging.Formatter):
    """A log formatter that removes terminal control sequences.

    Nodes, peers and customers write parts of the lines.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        """Format a record as one line, even if its text has line breaks."""
        return harmless(super().formatMessage(record)).replace("\n", " ")

    def formatException(self, ei: Any) -> str:  # noqa: N802  # logging's name
        """Indent every line of a traceback, so that no text in it looks like a log entry."""
        return "  " + harmless(super().formatException(ei)).replace("\n", "\n  ")


class LogTelemetry:
    """Events as lines of the program's log."""

    def tell(self, event: str, **fields: Detail) -> None:
        """Log one line at level INFO, or at WARNING if the event has a `problem`."""
        log_level = logging.WARNING if "problem" in fields else logging.INFO
        LOG.log(
            log_level,
            "%s %s",
            event,
            " ".join(f"{field_name}={shown(field_value)}" for field_name, field_value in fields.items()),
        )


class JsonLinesTelemetry:
    """Events as JSON objects, one a line. A full file is replaced, and one old file is kept."""

    def __init__(self, file_path: Path) -> None:
        """Append to `file_path`."""
        self._file_path = file_path
        self._open_file = self._opened()

    def tell(self, event: str, **fields: Detail) -> None:
        """Write the event. A full disk loses the event, not the work."""
        event_line = {"at_ms": time.time_ns() // 1_000_000, "event": event}
        event_line |= {
            field_name: field_value.hex() if isinstance(field_value, bytes) else field_value
            for field_name, field_value in fields.items()
        }
        try:
            self._open_file.write(json.dumps(event_line) + "\n")
            self._open_file.flush()
            if self._open_file.tell() > FILE_BYTES_MAX:
                self._open_file.close()
                self._file_path.replace(self._file_path.with_suffix(".old.jsonl"))
                self._open_file = self._opened()
        except OSError as error:
            LOG.warning("telemetry cannot be written: %s", error)

    def _opened(self) -> TextIO:
        return open(self._file_path, "a", encoding="utf-8", opener=own_opener)

    def close(self) -> None:
        """Close the file."""
        self._open_file.close()


class Telling:
    """Several receivers as one."""

    def __init__(self, *receivers: Telemetry) -> None:
        """Events go to each of `receivers`."""
        self._receivers = receivers

    def tell(self, event: str, **fields: Detail) -> None:
        """Report the event to all parts."""
        for receiver in self._receivers:
            receiver.tell(event, **fields)


def shown(value: Detail) -> str:
    """Return a value for one line of a log, without line breaks, because peers and customers write some values."""
    if isinstance(value, bytes):
        return f"0x{value[:4].hex()}.."
    return "".join(character if character.isprintable() else " " for character in str(value)[:TEXT_SHOWN])
