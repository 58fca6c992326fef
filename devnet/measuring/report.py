"""What a demo or a proof leaves behind: one JSON object in `out/`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path("out")

Report = dict[str, Any]


def write(name: str, report: Report | list[Report]) -> Path:
    """Write `out/NAME.json`; gives its path."""
    path = FOLDER / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path
