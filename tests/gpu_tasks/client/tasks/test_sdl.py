"""An SDL file as a lease: a table of its keys."""

import pytest

from converted import IMAGE, sdl
from error_codes import raises_code
from gpu_tasks.client.tasks.foreign import ForeignFileError
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.tasks.problems import TaskFileError


def file(service: str = "", resources: str = "", placement: str = "", count: str = "count: 1") -> str:
    return f"""version: "2.0"
services: {{web: {{image: '{IMAGE}', {service}}}}}
profiles:
  compute: {{small: {{resources: {{{resources}}}}}}}
  placement: {{akash: {{pricing: {{web: {{denom: uakt, amount: 100}}}}, {placement}}}}}
deployment: {{web: {{akash: {{profile: small, {count}}}}}}}
"""


@pytest.mark.parametrize(
    ("parts", "name", "value", "lost"),
    [
        ({"service": "args: [a, b]"}, "command", ("a", "b"), []),
        ({"service": "command: [sh, -c], args: [x y]"}, "command", ("sh", "-c", "x y"), ["command"]),
        ({"service": "env: [A=1, B=x=y]"}, "environment", {"A": "1", "B": "x=y"}, []),
        ({"service": "env: [A]"}, "environment", {}, ["env A"]),
        ({"service": "expose: [{port: 80, as: 8080}]"}, "ports", (80,), []),
        ({"service": "expose: [{port: 80, to: [{global: true}]}]"}, "ports", (80,), ["port 80 to the world"]),
        ({"service": "expose: [{port: 80, accept: [a.com]}]"}, "ports", (80,), ["port 80 accept"]),
        ({"service": "expose: [{port: 53, proto: udp}]"}, "ports", (), ["port 53 of udp"]),
        ({"service": "expose: [{port: 80, proto: TCP}, {port: 80}]"}, "ports", (80,), []),
        ({"service": "expose: {port: 80}"}, "ports", (80,), []),
        ({"service": "expose: [{as: 80}, {port: 65536}, {port: '\uff18'}]"}, "ports", (),
         ["port ", "port 65536", "port \uff18"]),
        ({"service": "expose: [{port: 80, to: [{service: db}]}]"}, "ports", (80,), ["port 80 to service db"]),
        ({"service": "expose: [{port: 80, to: [{global: false}]}]"}, "ports", (80,), []),
        ({"service": "expose: [{port: 80, to: [{global: 'on'}]}]"}, "ports", (80,), ["port 80 to the world"]),
        ({"service": "expose: [{port: 80, to: [{global: true, ip: a}]}]"}, "ports", (80,),
         ["port 80 to the world", "port 80, expose.to.ip"]),
        ({"service": "env: [HF_TOKEN=hf_x]"}, "environment", {}, ["env HF_TOKEN"]),
        ({"service": "env: [LD_PRELOAD=x, a.b=1, NVIDIA_VISIBLE_DEVICES=all]"}, "environment", {},
         ["env LD_PRELOAD", "env a.b"]),
        ({"resources": "memory: {size: 2Gi}, storage: [{size: 3Gi}, {name: s, size: 1Gi, attributes: {class: ram}}]"},
         "memory_bytes", 3 << 30, ["storage s of class ram"]),
        ({"resources": "memory: {size: 2Gi}, storage: [{size: 3Gi}, {name: s, size: 1Gi, attributes: {class: RAM}}]",
          "service": "params: {storage: {s: {mount: /dev/shm}}}"}, "disk_bytes", 3 << 30, ["storage s of class ram"]),
        ({"resources": "storage: [{size: 1Gi}, {name: d, size: 1Gi}]",
          "service": "params: {storage: {d: {mount: /data}}}"}, "disk_bytes", 2 << 30, ["storage d in /data"]),
        ({"resources": "storage: [{size: 1Gi}, {name: s, size: 1Gi, attributes: {class: ram}}]",
          "service": "params: {storage: {s: {mount: /cache}}}"}, "memory_bytes", 1 << 30,
         ["storage s of class ram", "storage s in /cache"]),
        ({"resources": "storage: {size: 1Gi, attributes: {class: ram}}",
          "service": "params: {storage: {default: {mount: /dev/shm}}}"}, "memory_bytes", 1 << 30,
         ["storage default of class ram"]),
        ({"resources": "storage: [{name: d, size: 1Gi}]", "service": "params: {storage: {d: {mount: /dev/shm}}}"},
         "disk_bytes", 1 << 30, ["storage d in /dev/shm"]),
        ({"resources": "cpu: {units: 2, attributes: {arch: arm64}}"}, "cpu_thousandths", 2_000, ["cpu.attributes"]),
        ({"resources": "memory: {size: 1Gi, attributes: {ecc: 1}}"}, "memory_bytes", 1 << 30, ["memory.attributes"]),
        ({"resources": "storage: [{size: 1Gi, attributes: {class: beta3}}]"}, "disk_bytes", 1 << 30, []),
        ({"count": "count: 1}, other: {profile: small"}, "name", "web", ["deployment.web in 2 placements"]),
        ({"service": "expose: [{port: 80, to: {global: true}}]"}, "ports", (80,), ["port 80 to the world"]),
        ({"service": "params: {odd: {}}"}, "name", "web", ["params.odd"]),
        ({"service": "credentials: {host: a}"}, "secrets", (), ["services.web.credentials"]),
        ({"service": "depends-on: [db]"}, "name", "web", ["services.web.depends-on"]),
        ({"resources": "cpu: {units: 100m}"}, "cpu_thousandths", 100, []),
        ({"resources": "cpu: {units: 1.5}"}, "cpu_thousandths", 1_500, []),
        ({"resources": "memory: {size: 512Mi}"}, "memory_bytes", 512 << 20, []),
        ({"resources": "memory: {size: 1G}"}, "memory_bytes", 954 << 20, []),
        ({"resources": "memory: {size: 1.5Gi}"}, "memory_bytes", 1536 << 20, []),
        ({"resources": "storage: {size: 1Gi}"}, "disk_bytes", 1 << 30, []),
        ({"resources": "storage: [{size: 1Gi}, {name: d, size: 2Gi}]"}, "disk_bytes", 3 << 30, []),
        ({"resources": "storage: [{size: 1Gi, attributes: {persistent: true}}]"}, "disk_bytes", 1 << 30,
         ["storage that persists"]),
        ({"resources": "storage: [{size: 1Gi, attributes: {persistent: 'Yes'}}]"}, "disk_bytes", 1 << 30,
         ["storage that persists"]),
        ({"resources": "storage: [{size: 1Gi, attributes: {persistent: false}}]"}, "disk_bytes", 1 << 30, []),
        ({"resources": "gpu: {units: 1}"}, "classes", (DeviceClass.CONSUMER, DeviceClass.DATACENTER), []),
        ({"resources": "gpu: {units: 4}"}, "gpus", 1, ["4 GPUs"]),
        ({"resources": "gpu: {units: 0}"}, "gpus", 0, []),
        ({"resources": "gpu: {units: 1, attributes: {vendor: {nvidia: [{model: a100}]}}}"}, "gpus", 1,
         ["gpu.attributes"]),
        ({"resources": "tpu: {units: 1}"}, "gpus", 0, ["resources tpu"]),
        ({"placement": "attributes: {host: akash}"}, "price_max", 200_000_000, ["placement akash attributes"]),
        ({"placement": "signedBy: {anyOf: [a]}"}, "price_max", 200_000_000, ["placement akash signedBy"]),
        ({"count": "count: 3"}, "copies", 1, ["deployment.web.akash.count"]),
        ({}, "is_lease", True, []),
    ],
)  # fmt: skip
def test_a_key_becomes_what_it_means(parts: dict[str, str], name: str, value: object, lost: list[str]) -> None:
    found = sdl(file(**parts))
    assert getattr(found.task, name) == value
    assert found.lost == lost
    assert "placement akash" in found.unneeded, "its price is another chain's"


def test_the_profile_of_the_deployment_is_taken() -> None:
    text = file(resources="cpu: {units: 3}").replace("compute: {", "compute: {web: {resources: {cpu: {units: 9}}}, ")
    assert sdl(text).task.cpu_thousandths == 3_000
    assert sdl(text.partition("deployment:")[0]).task.cpu_thousandths == 9_000


@pytest.mark.parametrize("version", ["2.0", "2.1", "2"])
def test_every_version_2_is_read(version: str) -> None:
    assert sdl(file().replace("2.0", version)).task.name == "web"


def test_others_beside_the_service_are_named() -> None:
    text = file().replace("services: {", "endpoints: {}\nservices: {db: {image: b}, ")
    found = sdl(text, "web")
    assert "service db" in found.unneeded
    assert found.lost == ["endpoints"]


def test_a_job_has_no_ports() -> None:
    found = sdl(file("expose: [{port: 80}]"), is_job=True)
    assert (found.task.is_lease, found.task.ports) == (False, ())


def test_a_memory_beyond_the_limit_names_the_limit() -> None:
    with pytest.raises((ForeignFileError, TaskFileError), match="4096Gi"):
        sdl(file(resources="memory: {size: 9Ti}"))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("version: '1.0'\nservices: {web: {image: a}}", "other_kind"),
        ("services: {web: {image: a}}", "other_kind"),
        ("version: '2.0'\nservices: {web: {}}", "no_image"),
        ("version: '2.0'\nservices: {web: {image: 'nginx:1'}}", "image_tag"),
        ("version: '2.0'\nservices: {web: {image: a}, db: {image: b}}", "several"),
        ("{}", "unsupported_version"),
        (file("env: [[A]]"), "no_value"),
        (file("expose: [80]"), "no_table"),
        (file(resources="cpu: {units: all}"), "invalid_cores"),
        (file(resources="memory: {size: all}"), "invalid_size"),
        (file(resources="memory: {size: 512m}"), "invalid_size"),
        (file(resources="storage: [a]"), "no_table"),
    ],
)
def test_what_can_be_no_task_is_refused(text: str, code: str) -> None:
    with raises_code(ForeignFileError, code):
        sdl(text)
