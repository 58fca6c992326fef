"""A devnet's MQTT broker: Mosquitto on loopback, open to all clients, without persistence.

    python -m devnet.launcher.broker PORT FOLDER

The process becomes Mosquitto, in the folder where it is started.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

PROGRAM = "mosquitto"
USUAL_PLACES = "/usr/sbin:/usr/local/sbin:/opt/homebrew/sbin"
MESSAGE_BYTES_MAX = 64 * 1024
QUEUED_MAX = 1_000


def broker_program() -> str | None:
    """Return Mosquitto's path, or None if it is not installed."""
    return shutil.which(PROGRAM, path=f"{os.environ.get('PATH', '')}:{USUAL_PLACES}")


def configuration(port: int) -> str:
    """Return Mosquitto's configuration."""
    return (
        f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\n"
        f"message_size_limit {MESSAGE_BYTES_MAX}\nmax_queued_messages {QUEUED_MAX}\nlog_dest stderr\n"
    )


def main() -> None:
    """Write the configuration and become Mosquitto. The arguments are its port and the folder."""
    program = broker_program()
    if program is None:
        sys.exit(f"{PROGRAM} is not installed: apt-get install mosquitto")
    path = Path(sys.argv[2], "mosquitto.conf").resolve()
    path.write_text(configuration(int(sys.argv[1])), encoding="utf-8")
    os.execv(program, [program, "-c", str(path)])  # noqa: S606 - found above, with words of ours


if __name__ == "__main__":
    main()
