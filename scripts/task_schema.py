"""The JSON Schemas of task files in docs/: checked, or written (`python -m scripts.task_schema --write`)."""

import json
import sys
from pathlib import Path

from gpu_tasks.tasks.task_kinds import FORMS, task_schema

DOCS = Path(__file__).parent.parent / "docs"
NAMES = {"TrainingTask": "training-task"}
PAGES = {kind: DOCS / f"{NAMES.get(kind, kind.lower())}.schema.json" for kind in FORMS}


def text(kind: str) -> str:
    """Return the content of a kind's schema file."""
    return json.dumps(task_schema(kind), indent=2) + "\n"


def main() -> int:
    """Check or write the files. Return 0 if they match the declarations."""
    if "--write" in sys.argv[1:]:
        for kind, page in PAGES.items():
            page.write_text(text(kind), encoding="utf-8")
        return 0
    wrong = [
        page.name for kind, page in PAGES.items() if not page.exists() or page.read_text(encoding="utf-8") != text(kind)
    ]
    if wrong:
        print(f"{', '.join(wrong)}: not what the declarations say: python -m scripts.task_schema --write")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
