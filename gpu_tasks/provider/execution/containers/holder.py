"""The image of the holder: a program of 129 bytes that does nothing, beside every container.

A sized volume in memory exists only while a container mounts it. The holder mounts it before the stranger's program
starts and until after it ends. So secrets and inputs enter, and outputs leave, through a root folder that the stranger
never wrote to. The image needs no registry, and its id is the same everywhere.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
import tarfile

from gpu_tasks.provider.execution.containers.refusals import ContainerError

PROGRAM = "/pause"
FOLDERS = ("in", "out", "secrets", "workspace")

_LOAD_ADDRESS = 0x400000
_HEADERS_BYTES = 64 + 56
# x86-64: mov eax, 34 (pause); syscall; jump to the start.
# arm64: x0 to x3 = 0; x8 = 73 (ppoll); svc 0; branch to the svc's arguments.
_CODE = {
    "x86_64": (62, "amd64", bytes.fromhex("b822000000 0f05 ebf7")),
    "aarch64": (
        183,
        "arm64",
        struct.pack("<7I", 0xD2800000, 0xD2800001, 0xD2800002, 0xD2800003, 0xD2800928, 0xD4000001, 0x17FFFFFA),
    ),
}


def program_for(machine_name: str) -> bytes:
    """Return a static ELF program that waits for ever. Raise ContainerError for an unsupported machine."""
    if machine_name not in _CODE:
        raise ContainerError(
            "hold volumes",
            f"no holder program for {machine_name}",
            f"use one of {', '.join(_CODE)}",
            code="unknown_machine",
        )
    machine_number, _, machine_code = _CODE[machine_name]
    program_bytes = _HEADERS_BYTES + len(machine_code)
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)
    entry_address = _LOAD_ADDRESS + _HEADERS_BYTES
    elf_header = struct.pack("<HHIQQQIHHHHHH", 2, machine_number, 1, entry_address, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    program_segment = struct.pack(
        "<IIQQQQQQ", 1, 5, 0, _LOAD_ADDRESS, _LOAD_ADDRESS, program_bytes, program_bytes, 0x1000
    )
    return identity + elf_header + program_segment + machine_code


def holder_archive(machine_name: str) -> tuple[bytes, str]:
    """Return the holder's image archive and its id. Raise ContainerError for an unsupported machine."""
    layer_tar = _tar({PROGRAM.lstrip("/"): (program_for(machine_name), 0o555)}, FOLDERS)
    config = {
        "architecture": _CODE[machine_name][1],
        "os": "linux",
        "config": {"Entrypoint": [PROGRAM]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer_tar).hexdigest()}"]},
    }
    # Sorted keys make the bytes, and so the image's id, the same everywhere.
    config_bytes = json.dumps(config, sort_keys=True).encode()
    image_id = hashlib.sha256(config_bytes).hexdigest()
    manifest = json.dumps([{"Config": f"{image_id}.json", "RepoTags": None, "Layers": ["0.tar"]}]).encode()
    archive_files = {
        f"{image_id}.json": (config_bytes, 0o444),
        "0.tar": (layer_tar, 0o444),
        "manifest.json": (manifest, 0o444),
    }
    return _tar(archive_files, ()), image_id


def _tar(file_contents: dict[str, tuple[bytes, int]], folder_names: tuple[str, ...]) -> bytes:
    tar_bytes = io.BytesIO()
    with tarfile.open(fileobj=tar_bytes, mode="w", format=tarfile.USTAR_FORMAT) as tar_file:
        for folder_name in folder_names:
            header = tarfile.TarInfo(folder_name)
            header.type, header.mode = tarfile.DIRTYPE, 0o755
            tar_file.addfile(header)
        for file_name, (file_content, file_mode) in file_contents.items():
            header = tarfile.TarInfo(file_name)
            # No owner and no time, for the same reason.
            header.size, header.mode = len(file_content), file_mode
            tar_file.addfile(header, io.BytesIO(file_content))
    return tar_bytes.getvalue()
