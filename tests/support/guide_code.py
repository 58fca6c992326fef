"""Code from a document, loaded as a module without changes."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def guide_module(document: str, path: Path, place: int = 0) -> ModuleType:
    """A Python example of `document` (a path below the repository's root), written to `path` and imported."""
    path.write_text(re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)[place])
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
