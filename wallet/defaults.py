"""What the command line says where the user says nothing; apart, so that its help needs no other module."""

from pathlib import Path

DEFAULT_URL = "ws://127.0.0.1:9944"
DEFAULT_FOLDER = Path("~/.ogpu/wallet")
