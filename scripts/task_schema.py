"""The JSON Schema of task files in docs/: checked, or written (`python -m scripts.task_schema --write`)."""

import json
import sys
from pathlib import Path

from gpu_tasks.tasks.json_schema import task_schema

PAGE = Path(__file__).parent.parent / "docs" / "training-task.schema.json"


def text() -> str:
    """The schema as it stands in the file."""
    return json.dumps(task_schema(), indent=2) + "\n"


def main() -> int:
    """0 if the file is what the declarations say, or was made so."""
    if "--write" in sys.argv[1:]:
        PAGE.write_text(text(), encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text():
        return 0
    print(f"{PAGE.name} is not what the declarations say: python -m scripts.task_schema --write")
    return 1


if __name__ == "__main__":
    sys.exit(main())
