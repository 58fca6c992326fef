"""The JSON Schema of task files, for editors and other programs: made of the declarations that read them."""

from typing import Any

from gpu_tasks.tasks.declarations import schema_of
from gpu_tasks.tasks.file_words import API_VERSION
from gpu_tasks.tasks.training_task import FILE, KIND

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def task_schema() -> dict[str, Any]:
    """What a task file may say. It takes whatever `read_task` takes, and refuses most of what that refuses."""
    return {"$schema": DIALECT, "$id": f"{API_VERSION}/{KIND}", "title": KIND, **schema_of(FILE)}
