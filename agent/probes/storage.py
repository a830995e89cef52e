"""Probe: what kind of storage the weights lie on."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.probes.base import Context, Found, NoData
from app.schemas.spec import Storage

__all__ = ["Mount", "mount_of", "parse_mounts", "probe", "weights_mount", "weights_storage"]

_MEMORY = frozenset(("tmpfs", "ramfs", "hugetlbfs"))
# Folders of a host that a sandbox passes through (9p, virtiofs) count as a network too: neither has a device here.
_NETWORK = re.compile(
    r"nfs\d?|cifs|smb\d?|smbfs|ceph|lustre|gpfs|beegfs|glusterfs|afs|wekafs|9p|virtiofs|fuse\..+|fuse"
)
_NETWORK_DEVICE = re.compile(r"(rbd|nbd|drbd)\d")
_FABRICS = frozenset(("tcp", "rdma", "fc"))


@dataclass(frozen=True)
class Mount:
    """One mounted file system: where it is, its type, what it is mounted from, its options by name."""

    point: str
    device: str
    filesystem: str
    source: str
    options: Mapping[str, str]


def probe(context: Context) -> Found:
    """Find the mount that the weights lie on, and the device below it."""
    mount = weights_mount(context)
    storage = weights_storage(context, mount)
    return Found({"hardware": {"storage": storage}} if storage else {}, {"filesystem": mount.filesystem})


def weights_mount(context: Context) -> Mount:
    """Return the mount of the first weight file, behind its links: the hub's snapshots are links to blobs."""
    if not context.files.weights:
        raise NoData("the model's weights are not on this node")
    mounts = parse_mounts(context.read("proc/self/mountinfo"))
    return mount_of(os.path.realpath(context.files.weights[0]), mounts)


def weights_storage(context: Context, mount: Mount) -> Storage | None:
    """Return the kind of storage behind ``mount``, or None where the machine does not tell."""
    if mount.filesystem in _MEMORY:
        return Storage.TMPFS
    if _NETWORK.fullmatch(mount.filesystem):
        return Storage.NETWORK
    if mount.filesystem == "overlay":
        return _upper_storage(context, mount)
    kinds = {_device_kind(device) for device in _disks(_block_device(context.root, mount))}
    # A volume over several kinds of disks is as slow as the slowest of them.
    order = (Storage.NETWORK, Storage.HDD, Storage.SSD, Storage.NVME)
    return next((kind for kind in order if kind in kinds), None)


def parse_mounts(text: str) -> list[Mount]:
    """Read ``/proc/self/mountinfo``: before `` - `` device and mount point, after it type, source and options."""
    mounts = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, (filesystem, source, *options) = before.split(" "), after.split(" ")
        pairs = (option.partition("=") for option in ",".join(options).split(","))
        named = {name: _unescaped(value) for name, _, value in pairs}
        mounts.append(Mount(_unescaped(fields[4]), fields[2], filesystem, _unescaped(source), named))
    return mounts


def mount_of(path: str, mounts: Iterable[Mount]) -> Mount:
    """Return the mount that ``path`` lies on: the deepest one, and of several at one point the last."""
    holding = [mount for mount in mounts if f"{path}/".startswith(f"{mount.point.rstrip('/')}/")]
    if not holding:
        raise NoData("/proc/self/mountinfo lists no mount that holds the weights")
    return max(reversed(holding), key=lambda mount: len(mount.point))


def _unescaped(text: str) -> str:
    """mountinfo writes a space as ``\\040``."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def _upper_storage(context: Context, mount: Mount) -> Storage | None:
    """Return the storage of an overlay's upper folder; inside a container that folder is out of sight: None."""
    mounts = [other for other in parse_mounts(context.read("proc/self/mountinfo")) if other.filesystem != "overlay"]
    try:
        below = mount_of(mount.options.get("upperdir", ""), [other for other in mounts if other.point != "/"])
    except NoData:
        return None
    return weights_storage(context, below)


def _block_device(root: Path, mount: Mount) -> Path | None:
    """Return the device's folder below ``/sys``; btrfs and alike have a number of their own, but a source in /dev."""
    name = os.path.realpath(mount.source) if mount.source.startswith("/dev/") else ""
    candidates = (root / "sys/dev/block" / mount.device, root / "sys/class/block" / Path(name).name)
    return next((path.resolve() for path in candidates if path.name and (path / "dev").exists()), None)


def _disks(device: Path | None) -> Iterator[Path]:
    """Give the whole disks below a partition, a volume, a RAID or an encrypted device."""
    if device is None:
        return
    slaves = sorted((device / "slaves").glob("*"))
    for slave in slaves:
        yield from _disks(slave.resolve())
    if not slaves:
        yield device.parent if (device / "partition").exists() else device


def _device_kind(disk: Path) -> Storage | None:
    if disk.name.startswith("nvme"):
        transport = _word(disk / "device/transport") or _word(disk / "device/device/transport")
        return Storage.NETWORK if transport in _FABRICS else Storage.NVME
    if _NETWORK_DEVICE.match(disk.name):
        return Storage.NETWORK
    rotational = _word(disk / "queue/rotational")
    if rotational == "1" and disk.name.startswith(("vd", "xvd", "loop", "zram")):
        return None  # A virtual disk says so whatever the host keeps it on.
    return {"0": Storage.SSD, "1": Storage.HDD}.get(rotational)


def _word(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
