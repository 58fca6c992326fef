"""A Compose file as a task: a table of keys, each with what it becomes, or why it is left out."""

import pytest

from converted import IMAGE, compose
from gpu_tasks.client.tasks.foreign import SAID_MAX, ForeignFileError
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.tasks.container_request import ContainerNetwork
from gpu_tasks.tasks.problems import TaskFileError

SECRETS = "the place of secrets"


def one(*lines: str) -> str:
    return "\n".join(("services:", "  web:", f"    image: {IMAGE}", *(f"    {line}" for line in lines)))


def devices(text: str) -> str:
    return f"deploy: {{resources: {{reservations: {{devices: [{text}]}}}}}}"


def generic(kind: str) -> str:
    spec = f"{{discrete_resource_spec: {{kind: {kind}, value: 2}}}}"
    return f"deploy: {{resources: {{reservations: {{generic_resources: [{spec}]}}}}}}"


@pytest.mark.parametrize(
    ("line", "name", "value", "lost"),
    [
        ("command: [a, b c]", "command", ("a", "b c"), []),
        ('command: sh -c "echo $$HOME"', "command", ("sh", "-c", "echo $HOME"), []),
        ("command: echo ${HOME}", "command", ("echo", "${HOME}"), ["${…}"]),
        ("entrypoint: [a, b]", "command", (), ["entrypoint"]),
        ("environment: {A: 1, B: no}", "environment", {"A": "1", "B": "no"}, []),
        ("environment: [A=1=2, B=]", "environment", {"A": "1=2", "B": ""}, []),
        ('environment: {A: "", B: "null", C: "$$x"}', "environment", {"A": "", "B": "null", "C": "$x"}, []),
        ("environment: {A: $x}", "environment", {"A": "$x"}, ["${…}"]),
        ("environment: [NOBODY_HAS]", "environment", {}, ["environment NOBODY_HAS"]),
        ("environment: {NOBODY_HAS: }", "environment", {}, ["environment NOBODY_HAS"]),
        ("environment: {NOBODY_HAS: ~}", "environment", {}, ["environment NOBODY_HAS"]),
        ('ports: ["8080:80"]', "ports", (80,), []),
        ('ports: ["127.0.0.1:8080:80/tcp", 81, 80]', "ports", (80, 81), []),
        ("ports: [{target: 80, published: 8080}]", "ports", (80,), []),
        ('ports: ["53:53/udp"]', "ports", (), ["port 53:53/udp"]),
        ('ports: ["8000-8010:8000-8010"]', "ports", (), ["port 8000-8010:8000-8010"]),
        ("ports: [0, 65536, '']", "ports", (), ["port 0", "port 65536", "port "]),
        ("ports: [1, 65535]", "ports", (1, 65_535), []),
        ("volumes: []", "name", "web", []),
        ("extends: {}", "name", "web", []),
        ("user: ''", "name", "web", []),
        ("expose: [90]", "ports", (), ["expose"]),
        ("cpus: 0.5", "cpu_thousandths", 500, []),
        ("cpus: 1.0001", "cpu_thousandths", 1_001, []),
        ("mem_limit: 512m", "memory_bytes", 512 << 20, []),
        ("mem_limit: 2gb", "memory_bytes", 2 << 30, []),
        ("mem_limit: 1048577", "memory_bytes", 2 << 20, []),
        ("mem_limit: 0", "memory_bytes", 512 << 20, []),
        ("mem_limit: 1099511627776", "memory_bytes", 1 << 40, []),
        ("cpus: .5", "cpu_thousandths", 500, []),
        ("cpus: 0", "cpu_thousandths", 1_000, []),
        ("pids_limit: 0", "processes", 128, []),
        ("pids_limit: -1", "processes", 128, []),
        ("environment: [discovery.type=single-node, A=1]", "environment", {"A": "1"}, ["environment discovery.type"]),
        ("environment: {MY-VAR: 1, A: 1}", "environment", {"A": "1"}, ["environment MY-VAR"]),
        ("environment: {LD_PRELOAD: x.so}", "environment", {}, ["environment LD_PRELOAD"]),
        ("environment: {NVIDIA_VISIBLE_DEVICES: all, NVIDIA_DRIVER_CAPABILITIES: compute}", "environment", {}, []),
        ("environment: {DB_PASSWORD: hunter2}", "environment", {}, ["environment DB_PASSWORD"]),
        ("environment: {DB: 'pg://me:hunter2@db/x'}", "environment", {}, ["environment DB"]),
        ("environment: {PASSWORD_FILE: /run/secrets/pw, MAX_TOKENS: 5, API_KEY: ''}", "environment",
         {"PASSWORD_FILE": "/run/secrets/pw", "MAX_TOKENS": "5", "API_KEY": ""}, []),
        ("runtime: nvidia", "gpus", 1, []),
        ("runtime: kata", "gpus", 0, ["runtime"]),
        ("runtime: runc", "gpus", 0, []),
        ("ipc: private", "name", "web", []),
        ("ipc: host", "name", "web", ["ipc"]),
        ("devices: [nvidia.com/gpu=all]", "gpus", 1, []),
        ("devices: ['/dev/nvidia0:/dev/nvidia0', nvidia.com/gpu=1]", "gpus", 1, ["more than one GPU"]),
        ("devices: [/dev/fuse]", "gpus", 0, ["device /dev/fuse"]),
        (generic("NVIDIA-GPU"), "gpus", 1, ["more than one GPU"]),
        (generic("ssd"), "gpus", 0, ["generic_resources ssd"]),
        ("cap_drop: [ALL]", "name", "web", []),
        ("read_only: true", "name", "web", []),
        ("security_opt: ['no-new-privileges:true']", "name", "web", []),
        ("security_opt: ['no-new-privileges=true']", "name", "web", []),
        ("security_opt: [no-new-privileges]", "name", "web", []),
        ("security_opt: ['seccomp:unconfined']", "name", "web", ["security_opt"]),
        ("network_mode: none", "name", "web", []),
        ("network_mode: host", "name", "web", ["network_mode"]),
        ("networks: {default: }", "name", "web", []),
        ("networks: [default]", "name", "web", []),
        ("networks: [back]", "name", "web", ["networks"]),
        ("tmpfs: /tmp", "name", "web", []),
        ("tmpfs: [/tmp]", "name", "web", []),
        ("tmpfs: /run", "name", "web", ["tmpfs"]),
        ("platform: linux/amd64", "name", "web", []),
        ("platform: linux/x86_64", "name", "web", []),
        ("platform: linux/arm64", "name", "web", ["platform"]),
        ("shm_size: 8gb", "name", "web", ["shm_size"]),
        ("entrypoint: ", "name", "web", []),
        ("entrypoint: []", "name", "web", ["entrypoint"]),
        ("deploy: {restart_policy: {condition: on-failure}}", "name", "web", ["deploy.restart_policy"]),
        ("deploy: {restart_policy: {condition: none}}", "name", "web", []),
        ("deploy: {restart_policy: {delay: 5s}}", "name", "web", ["deploy.restart_policy"]),
        ("privileged: false", "name", "web", []),
        ("extends: {file: a, service: b}", "name", "web", ["extends"]),
        ("ports: [{target: 53, protocol: udp}, {target: 54, protocol: tcp}]", "ports", (54,), ["port 53/udp"]),
        ("ports: ['${PORT}:80', '${PORT:-8080}:81', $PORT:82]", "ports", (80, 81, 82), []),
        ("ports: ['80:${PORT}']", "ports", (), ["port 80:${PORT}"]),
        ("pids_limit: 64", "processes", 64, []),
        ("deploy: {resources: {limits: {cpus: '2', memory: 1G, pids: 99}}}", "processes", 99, []),
        ("deploy: {resources: {limits: {cpus: '2'}, reservations: {cpus: '1'}}}", "cpu_thousandths", 2_000, []),
        ("deploy: {resources: {reservations: {memory: 1G}}}", "memory_bytes", 1 << 30, []),
        ("deploy: {resources: {limits: {odd: 1}}}", "gpus", 0, ["deploy.resources odd"]),
        ("deploy: {resources: {reservations: {odd: 1}}}", "gpus", 0, ["deploy.resources odd"]),
        ("deploy: {replicas: 3}", "copies", 1, ["deploy.replicas"]),
        ("deploy: {replicas: 1, placement: {}}", "copies", 1, []),
        ("gpus: all", "gpus", 1, ["more than one GPU"]),
        ("gpus: 1", "gpus", 1, []),
        ("gpus: [{count: 1}]", "gpus", 1, []),
        (devices("{driver: nvidia, count: 1, capabilities: [gpu]}"), "gpus", 1, []),
        (devices("{count: 2, capabilities: [gpu]}"), "gpus", 1, ["more than one GPU"]),
        (devices("{count: 0, capabilities: [gpu]}"), "gpus", 0, []),
        (devices("{device_ids: ['0', '3'], capabilities: [gpu]}"), "gpus", 1, ["more than one GPU"]),
        (devices("{capabilities: [tpu]}"), "gpus", 0, ["a device"]),
        ("restart: always", "is_lease", True, ["restart"]),
        ('restart: "no"', "is_lease", True, []),
        ("volumes: ['./a:/b']", "inputs", (), ["volumes"]),
        ("secrets: [token, {source: key}]", "secrets", ("token", "key"), [SECRETS]),
        ("secrets: [db-password]", "secrets", (), ["secret db-password", SECRETS]),
        ("env_file: .env", "environment", {}, ["env_file"]),
        ("build: .", "name", "web", ["build"]),
        ("depends_on: [db]", "name", "web", ["depends_on"]),
        ("privileged: true", "name", "web", ["privileged"]),
        ("working_dir: /x", "name", "web", ["working_dir"]),
        ("nobody_knows: 1", "name", "web", ["nobody_knows"]),
        ("container_name: x", "name", "web", []),
        ("x-own: 1", "name", "web", []),
    ],
)  # fmt: skip
def test_a_key_becomes_what_it_means(line: str, name: str, value: object, lost: list[str]) -> None:
    found = compose(one(line))
    assert getattr(found.task, name) == value
    assert found.lost == lost


def test_what_compose_itself_prints_is_taken() -> None:
    """Compose prints unused keys and defaults too: the advice to convert its output must lose nothing."""
    text = f"""name: shop
services:
  web:
    command: null
    deploy:
      resources:
        limits: {{cpus: 0.5, memory: "1073741824"}}
        reservations: {{devices: [{{capabilities: [gpu], driver: nvidia, count: 1}}]}}
    entrypoint: null
    environment: {{A: b$$c}}
    image: {IMAGE}
    networks: {{default: null}}
    ports: [{{mode: ingress, target: 80, published: "8080", protocol: tcp}}]
networks: {{default: {{name: shop_default}}}}
"""
    found = compose(text)
    assert found.lost == []
    task = found.task
    assert (task.cpu_thousandths, task.memory_bytes, task.gpus, task.ports) == (500, 1 << 30, 1, (80,))
    assert task.environment == {"A": "b$c"}


def test_what_is_left_out_and_does_not_matter_is_said() -> None:
    text = (
        one("container_name: x", "x-own: 1", "deploy: {placement: {}}")
        + "\n  db: {image: b}\nvolumes: {}\nversion: '3'\n"
    )
    assert compose(text, "web").unneeded == [
        "service db", "volumes", "container_name", "x-own", "deploy.placement", "the network",
    ]  # fmt: skip
    assert compose(one(), network="outbound").unneeded == []
    assert compose(one(), network="outbound").task.network is ContainerNetwork.OUTBOUND


def test_a_job_has_no_ports() -> None:
    found = compose(one("ports: [80]"), is_job=True)
    assert (found.task.is_lease, found.task.ports, found.lost) == (False, (), ["ports"])


def test_a_gpu_is_looked_for_where_there_are_some() -> None:
    assert compose(one("gpus: 1")).task.classes == (DeviceClass.CONSUMER, DeviceClass.DATACENTER)
    assert len(compose(one()).task.classes) == 3


def test_what_is_lost_is_said_whatever_stands_before_it() -> None:
    """`--strict` goes by it: a hundred things that do not matter hid one that does."""
    found = compose(one(*(f"x-{number}: 1" for number in range(150)), "privileged: true"))
    assert found.lost == ["privileged"]
    assert len(found.unneeded) == SAID_MAX
    assert found.foreign.carrying.more == 51  # with the network


def test_of_your_environment_what_you_name_goes_along_and_is_said() -> None:
    found = compose(one("environment: [TOKEN, OTHER=1]"), env={"TOKEN": "t", "HOME": "/me"})
    assert found.task.environment == {"TOKEN": "t", "OTHER": "1"}
    assert "environment TOKEN as a secret" in found.unneeded


def test_a_variable_in_the_name_of_an_image_that_is_not_used_is_no_loss() -> None:
    text = "services: {web: {image: 'acme/tool:${TAG:-latest}'}}"
    assert compose(text, image=IMAGE).lost == []
    for named in (text, f"services: {{web: {{image: '${{REGISTRY}}/{IMAGE}'}}}}"):
        with pytest.raises(ForeignFileError, match="docker compose config") as refused:
            compose(named)
        assert refused.value.line == 1


def test_an_image_by_tag_is_asked_for_with_the_command_that_finds_its_digest() -> None:
    text = "services: {web: {image: 'nginx:1.25;touch x'}}"
    with pytest.raises(ForeignFileError) as refused:
        compose(text)
    assert "`docker buildx imagetools inspect 'nginx:1.25;touch x'`" in str(refused.value)
    assert str(compose(text, image=IMAGE).task.image).startswith("ghcr.io/acme/tool@")
    with pytest.raises(ForeignFileError, match="names no image"):
        compose("services: {web: {build: .}}")
    tagged = compose(f"services: {{web: {{image: 'localhost:5000/a:1.2@sha256:{'cd' * 32}'}}}}")
    assert str(tagged.task.image).startswith("localhost:5000/a@")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("services: {web: {image: a}, db: {image: b}}", "services has 2 entries"),
        ("services: {}", "has no services"),
        ("web: {image: nginx}", "of version 1"),
        ("web: {build: .}", "of version 1"),
        ("apiVersion: batch/v1\nkind: Job\nspec: {}", "a Kubernetes file"),
        (one("mem_limit: ${MEM}"), "docker compose config"),
        (one("cpus: ${CPUS:-2}"), "docker compose config"),
        (one("pids_limit: $PIDS"), "docker compose config"),
        (one(devices("{count: '${N}', capabilities: [gpu]}")), "docker compose config"),
        ("services: {web: [a]}", "is not a table"),
        ("services: {web: {image: [a]}}", "is not a single value"),
        ("services: {web: {image: a, ports: [[1]]}}", "ports is not a single value"),
        ("services: {web: {image: a, deploy: {resources: {reservations: {devices: [a]}}}}}", "is not a table"),
        ("services: {web: {image: a, environment: {A: [1]}}}", "is not a single value"),
        ("{}", "has no services"),
        ("[]", "is not a table"),
        ("a: &x 1\nb: *x", "docker compose config"),
        ("a: !!python/object:os.system 1", "tags"),
        ("a: 1\na: 2", "repeats line 1"),
        ("services: {web: {image: a, cpus: many}}", "'many' is not a number of cores"),
        ("services: {web: {image: a, mem_limit: much}}", "'much' is not a size"),
        ("services: {web: {image: a, command: 'sh -c \"x'}}", "its quotes do not match"),
        (one("pids_limit: many"), "is not a text; write many without quotes"),
    ],
)
def test_what_can_be_no_task_is_refused(text: str, says: str) -> None:
    with pytest.raises((ForeignFileError, TaskFileError), match=says):
        compose(text)


def test_a_service_is_named() -> None:
    text = f"services:\n  web: {{image: a}}\n  Data_Base: {{image: '{IMAGE}'}}\n"
    assert compose(text, "Data_Base").task.name == "data-base"
    with pytest.raises(ForeignFileError, match=r"has no 'x'\. It has 'web', 'Data_Base'"):
        compose(text, "x")
