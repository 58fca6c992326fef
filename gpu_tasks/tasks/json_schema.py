"""The JSON Schema of task files, for editors and other programs: made of the declarations that read them."""

from typing import Any

from gpu_tasks.tasks import container_task, training_task
from gpu_tasks.tasks.declarations import schema_of
from gpu_tasks.tasks.file_words import API_VERSION

DIALECT = "https://json-schema.org/draft/2020-12/schema"
SCHEMA_KINDS = {training_task.KIND: training_task.FILE, **container_task.FILES}


def task_schema(kind: str = training_task.KIND) -> dict[str, Any]:
    """What a task file of a kind may say. It takes whatever its reader takes, and refuses most of what that refuses."""
    return {"$schema": DIALECT, "$id": f"{API_VERSION}/{kind}", "title": kind, **schema_of(SCHEMA_KINDS[kind])}
