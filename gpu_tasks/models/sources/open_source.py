"""The model at a path, in any known format."""

from __future__ import annotations

import re
import stat
from dataclasses import replace
from pathlib import Path, PurePosixPath

from gpu_tasks.models.model_store import FILE_SUFFIX
from gpu_tasks.models.sources.gguf import name_of_file, read_gguf_model
from gpu_tasks.models.sources.huggingface import INDEX, read_folder_model
from gpu_tasks.models.sources.opened_file import OpenedFile
from gpu_tasks.models.sources.origin import SOURCE_MAX, ModelOrigin, one_line
from gpu_tasks.models.sources.source_files import ArchiveFiles, FolderFiles, SourceFiles
from gpu_tasks.models.sources.source_model import SourceError, SourceModel, some_of

PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
ARCHIVES = (".whl", ".zip")
SPLIT = re.compile(r"-\d{5}-of-\d{5}$")


def open_source(path: Path) -> SourceModel:
    """Open a GGUF file, a folder in Hugging Face's layout, or a wheel or zip archive of either.

    Raise SourceError for any input that is no usable model. Nothing large is read before the headers are checked.
    """
    suffix = path.suffix.lower()
    try:
        mode = path.stat().st_mode
    # A path with a zero byte raises ValueError.
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise SourceError("not_found", f"{path} cannot be opened: {reason}") from None
    if stat.S_ISDIR(mode):
        return _open_files(FolderFiles(path), path.name)
    if not stat.S_ISREG(mode):
        raise SourceError("not_found", f"{path} is neither a file nor a folder")
    if suffix == ".gguf":
        origin = ModelOrigin(name_of_file(path.stem), source=one_line(f"file:{path.name}", SOURCE_MAX))
        return _open_gguf(OpenedFile.of_path(path), path.stem, origin)
    if suffix in ARCHIVES:
        return _open_files(ArchiveFiles(path), path.name)
    # A pickle is a program: reading it would run a stranger's code with the rights of this user.
    if suffix in PICKLES:
        raise _pickle_error(path.name)
    if suffix == ".safetensors":
        raise SourceError("format", f"{path.name} holds tensors alone; give the folder with config.json and tokenizer")
    if suffix == FILE_SUFFIX:
        raise SourceError("format", f"{path.name} is converted already; add it with `ogpu model add`")
    raise SourceError("format", f"{path.name} is no model; give a GGUF file, a folder, or a wheel or zip archive")


def _open_files(files: SourceFiles, name: str) -> SourceModel:
    """Open the model among some files: that of the uppermost folder, which must be alone there."""
    names = [PurePosixPath(path) for path in files.sizes]
    weights = {path.parent for path in names if path.name == INDEX or path.suffix == ".safetensors"}
    folders = [path.parent for path in names if path.name == "config.json" and path.parent in weights]
    ggufs = [path for path in names if path.suffix.lower() == ".gguf"]
    depths = [(len(folder.parts), folder) for folder in folders] + [(len(path.parts) - 1, path) for path in ggufs]
    found = [path for depth, path in depths if depth == min(depth for depth, _ in depths)]
    if len(found) > 1:
        raise SourceError(
            "several_models", f"{name} holds several models, {some_of(sorted(map(str, found)))}; give a single one"
        )
    if not found:
        if pickles := [str(path) for path in names if path.suffix.lower() in PICKLES]:
            raise _pickle_error(some_of(pickles))
        if any(path.name == "config.json" for path in names):
            raise SourceError("shards", f"{name} holds a config.json, but no safetensors beside it")
        raise SourceError("no_model", f"{name} holds no model: neither a GGUF file nor config.json with safetensors")
    if found[0] in folders:
        return read_folder_model(files, found[0])
    origin = replace(files.origin, name=name_of_file(found[0].stem))
    return _open_gguf(files.open(str(found[0])), found[0].stem, origin)


def _open_gguf(file: OpenedFile, stem: str, origin: ModelOrigin) -> SourceModel:
    if SPLIT.search(stem):
        raise SourceError("shards", f"{stem} is a part of a model; join the parts with llama-gguf-split --merge")
    return read_gguf_model(file, origin)


def _pickle_error(names: str) -> SourceError:
    return SourceError(
        "pickle", f"{names}: pickle files run code when they are read, so they are refused; give safetensors or GGUF"
    )
