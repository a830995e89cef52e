"""The probes of the machine, each on a fixture tree in place of /proc and /sys."""

from pathlib import Path

import pytest

from agent.probes import cpu, cpu_limits, gpu_amd, load, memory, node, storage
from agent.probes.base import NoData
from agent.probes.gpu_nvidia import visible_devices
from tests.agent.machines import context, write_machine, write_model, write_tree


def test_cpu_counts_physical_cores(tmp_path: Path) -> None:
    found = cpu.probe(context(write_machine(tmp_path, cores=4, threads=2)))
    assert found.spec == {"hardware": {"cpu": "AMD EPYC 9354 32-Core Processor", "cpu_cores": 4}}
    assert found.facts == {"logical_cpus": 8}


def test_an_arm_cpu_is_named_by_its_part(tmp_path: Path) -> None:
    text = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n\nprocessor\t: 1\n"
    assert cpu.parse_cpuinfo(text) == ("Neoverse-V2", 2)
    assert cpu.parse_cpuinfo("CPU part\t: 0xabc\n") == ("ARM part 0xabc", 0)
    with pytest.raises(NoData):
        cpu.probe(context(write_tree(tmp_path, {"proc/cpuinfo": "processor\t: 0\n"})))


@pytest.mark.parametrize(
    ("extra", "cores"),
    [
        ({}, None),
        ({"sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        ({"sys/fs/cgroup/cpu.max": "150000 100000\n"}, 1.5),
        # The pod's limit is tighter than the container's own.
        (
            {
                "proc/self/cgroup": "0::/pod/container\n",
                "sys/fs/cgroup/pod/container/cpu.max": "400000 100000\n",
                "sys/fs/cgroup/pod/cpu.max": "200000 100000\n",
            },
            2.0,
        ),
        # Version 1; inside a container the path of the host leads nowhere.
        (
            {
                "proc/self/cgroup": "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "250000\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            2.5,
        ),
        (
            {
                "proc/self/cgroup": "3:cpu:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            None,
        ),
        # CPUs 0, 1, 4 and 5 are the two threads each of the cores 0 and 1.
        ({"proc/self/status": "Cpus_allowed_list:\t0-1,4-5\n"}, 2),
        ({"proc/self/status": "Cpus_allowed_list:\t0-1\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"}, 0.5),
    ],
)
def test_the_tightest_limit_on_cores_holds(tmp_path: Path, extra: dict[str, str], cores: float | None) -> None:
    found = cpu_limits.probe(context(write_machine(tmp_path, cores=4, threads=2, extra=extra)))
    assert found.spec.get("hardware", {}).get("cpu_quota_cores") == cores


def test_load_is_the_share_of_ticks_that_were_not_idle(tmp_path: Path) -> None:
    root = write_machine(tmp_path)

    def other_work(seconds: float) -> None:
        # 30 ticks of work, 60 idle, 10 waiting for a disk: 30 of 100 were busy.
        (root / "proc/stat").write_text("cpu  120 0 110 260 10 0 0 0 0 0\n")

    base = context(root)
    found = load.probe(type(base)(**{**vars(base), "pause": other_work}))
    assert found.spec == {"hardware": {"cpu_busy_fraction": 0.3}}
    assert found.facts == {"load_averages": [0.52, 0.58, 0.59]}


def test_load_without_a_tick_is_no_data(tmp_path: Path) -> None:
    with pytest.raises(NoData):
        load.probe(context(write_machine(tmp_path)))


def test_memory_is_given_in_bytes(tmp_path: Path) -> None:
    found = memory.probe(context(write_machine(tmp_path)))
    assert found.spec == {"hardware": {"memory_bytes": 16384 * 1024}}
    assert found.facts["available_bytes"] == 8192 * 1024


def test_the_node_s_label_is_only_what_the_operator_chose(tmp_path: Path) -> None:
    assert node.probe(context(tmp_path, environment={"COLDCAST_NODE": "rack-7"})).spec == {
        "hardware": {"node": "rack-7"}
    }
    with pytest.raises(NoData):
        node.probe(context(tmp_path, environment={"HOSTNAME": "alices-box"}))


@pytest.mark.parametrize(
    ("mounted", "kind"),
    [
        ("tmpfs tmpfs rw", "tmpfs"),
        ("nfs4 server:/export rw", "network"),
        ("fuse.gcsfuse gcs rw", "network"),
        ("lustre 10.0.0.1@tcp:/fs rw", "network"),
        ("ext4 /dev/nvme0n1p2 rw", "nvme"),
        ("btrfs /dev/sda1 rw", "ssd"),
        ("xfs /dev/sdb rw", "hdd"),
        ("xfs /dev/mapper/data rw", "hdd"),
        ("ext4 /dev/rbd0 rw", "network"),
        ("ext4 /dev/nvme1n1 rw", "network"),
        ("ext4 /dev/vda rw", None),
        ("ext4 /dev/vdb rw", "ssd"),
        ("ext4 /dev/unheard rw", None),
        ("overlay overlay rw,lowerdir=/a:/b,upperdir=/var/lib/docker/x/diff,workdir=/w", None),
        ("overlay overlay rw,lowerdir=/a,upperdir=/scratch/upper", "ssd"),
    ],
)
def test_storage_is_that_of_the_mount_of_the_weights(tmp_path: Path, mounted: str, kind: str | None) -> None:
    model = write_model(tmp_path / "models" / "with space")
    (tmp_path / "m").symlink_to(model)
    root = write_machine(
        tmp_path / "root",
        extra={
            **disk("nvme0n1", "259:0", transport="pcie", rotational="0"),
            **disk("nvme0n1/nvme0n1p2", "259:2", partition="2"),
            **disk("nvme1n1", "259:1", transport="tcp", rotational="0"),
            **disk("sda", "8:0", rotational="0"),
            **disk("sda/sda1", "8:1", partition="1"),
            **disk("sdb", "8:16", rotational="1"),
            **disk("dm-0", "253:0", rotational="0"),
            **disk("rbd0", "252:0", rotational="0"),
            **disk("vda", "254:0", rotational="1"),
            **disk("vdb", "254:16", rotational="0"),
        },
    )
    # The volume lies over a solid-state and a rotating disk, and is as slow as the latter.
    for slave in ("sda", "sdb"):
        link(root, f"sys/devices/dm-0/slaves/{slave}", f"sys/devices/{slave}")
    devices = {"/dev/mapper/data": "253:0", "/dev/nvme0n1p2": "259:2", "/dev/sdb": "8:16", "/dev/rbd0": "252:0"}
    devices |= {"/dev/nvme1n1": "259:1", "/dev/vda": "254:0", "/dev/vdb": "254:16"}
    for name, path in NAMES.items():
        link(root, f"sys/class/block/{name}", f"sys/devices/{path}")
    number = devices.get(mounted.split()[1], "0:55")
    for device in devices.values():
        link(root, f"sys/dev/block/{device}", f"sys/devices/{BY_NUMBER[device]}")
    point = str(tmp_path / "models").replace(" ", "\\040")
    (root / "proc/self/mountinfo").write_text(
        "22 1 0:20 / / rw,relatime - overlay overlay rw,upperdir=/hidden\n"
        f"30 22 0:99 / {point} rw,relatime - ext4 /dev/covered rw\n"
        f"31 30 {number} / {point} rw,relatime shared:5 master:1 - {mounted}\n"
        "32 22 8:1 / /scratch rw,relatime - ext4 /dev/sda1 rw\n"
    )
    found = storage.probe(context(root, f"vllm serve {tmp_path}/m"))
    assert found.spec.get("hardware", {}).get("storage") == kind
    assert found.facts["filesystem"] == mounted.split()[0]


NAMES = {"nvme0n1p2": "nvme0n1/nvme0n1p2", "sda1": "sda/sda1", "sda": "sda", "sdb": "sdb"}
BY_NUMBER = {
    "253:0": "dm-0",
    "259:2": "nvme0n1/nvme0n1p2",
    "8:16": "sdb",
    "252:0": "rbd0",
    "259:1": "nvme1n1",
    "254:0": "vda",
    "254:16": "vdb",
}


def disk(path: str, number: str, *, transport: str = "", rotational: str = "", partition: str = "") -> dict[str, str]:
    values = {"device/transport": transport, "queue/rotational": rotational, "partition": partition}
    return {f"sys/devices/{path}/dev": number} | {
        f"sys/devices/{path}/{name}": f"{value}\n" for name, value in values.items() if value
    }


def link(root: Path, name: str, target: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(root / target)


def test_where_no_weights_are_there_is_no_storage(tmp_path: Path) -> None:
    with pytest.raises(NoData):
        storage.probe(context(write_machine(tmp_path)))


@pytest.mark.parametrize(
    ("variable", "devices"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("-1", []),
        ("2,0", [2, 0]),
        ("1, 7, 0", [1]),
        ("GPU-bb", [1]),
        ("GPU-", []),
        ("GPU-cc3,0", [2, 0]),
        ("MIG-1234", ["MIG-1234"]),
        ("nonsense", []),
    ],
)
def test_visible_devices_are_what_cuda_would_see(variable: str | None, devices: list[int | str]) -> None:
    assert visible_devices(variable, ["GPU-aa1", "GPU-bb2", "GPU-cc3"]) == devices


def test_amd_gpus_are_read_from_the_driver(tmp_path: Path) -> None:
    cards = {
        "card0/device/vendor": "0x1a03\n",
        "card1/device/vendor": "0x1002\n",
        "card1/device/product_name": "AMD Instinct MI300X OAM\n",
        "card1/device/mem_info_vram_total": "206141652992\n",
        "card2/device/vendor": "0x1002\n",
        "card2/device/device": "0x74a1\n",
        "card1-DP-1/device/vendor": "0x1002\n",
    }
    root = write_tree(tmp_path, {f"sys/class/drm/{name}": content for name, content in cards.items()})
    found = gpu_amd.probe(context(root))
    assert found.spec == {"hardware": {"gpu": "AMD Instinct MI300X OAM", "gpu_memory_bytes": 206141652992}}
    assert found.facts["visible"] == 2
    second = gpu_amd.probe(context(root, environment={"HIP_VISIBLE_DEVICES": "1"}))
    assert second.spec == {"hardware": {"gpu": "AMD GPU 0x74a1"}}
    with pytest.raises(NoData):
        gpu_amd.probe(context(root, environment={"HIP_VISIBLE_DEVICES": ""}))
