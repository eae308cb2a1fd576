"""Areas of a device that a file system keeps for itself.

Its journal, its tables, and on btrfs its chunks. They are read from the device itself or asked of
the kernel before a recording, so that this is not recorded.
"""

from __future__ import annotations

import array
import fcntl
import os
import re
import struct
from dataclasses import dataclass, field
from pathlib import Path

from flashwright._core import RunError

from .tools import tool

_RANGE = re.compile(
    r"(?:(?:superblock|bitmap|table) at|Group descriptors at|GDT blocks at) (\d+)(?:-(\d+))?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Area:
    """A range of the device in bytes. `purpose`: `journal` or `metadata`."""

    purpose: str
    name: str
    device_offset: int
    length: int


@dataclass(frozen=True)
class Chunk:
    """A range of btrfs's own addresses, and where it lies on the device; one for each copy."""

    logical: int
    device_offset: int
    length: int


@dataclass
class OwnAreas:
    """Areas that a file system has for itself, and its geometry.

    `chunks`: None where addresses are the device's. `not_told`: what is not known, in words.
    `geometry`: what the kernel's events of it need to be understood: `block_bytes`; of XFS
    `group_blocks`, `group_shift` and `inode_shift` (bits of a block's and an inode's number within
    its group); of btrfs `fsid`, the first half of its UUID.
    """

    kind: str
    areas: list[Area] = field(default_factory=list)
    chunks: list[Chunk] | None = None
    not_told: list[str] = field(default_factory=list)
    geometry: dict[str, int] = field(default_factory=dict)


def own_areas(kind: str, node: Path, mount_point: Path) -> OwnAreas:
    """Tell what the file system of type `kind` on the device `node` has for itself.

    What is not known is said, not raised.
    """
    found = OwnAreas(kind)
    reader = {"ext2": _ext, "ext3": _ext, "ext4": _ext, "xfs": _xfs, "btrfs": _btrfs}.get(kind)
    if reader is None:
        found.not_told.append(f"where {kind} has its own data")
        return found
    try:
        reader(found, node, mount_point)
    except (OSError, RunError, ValueError, struct.error) as error:
        found.not_told.append(f"where {kind} has its own data: {error}")
    return found


def _ext(found: OwnAreas, node: Path, mount_point: Path) -> None:
    # Asked of the kernel: the programs below need not be there.
    found.geometry["block_bytes"] = os.statvfs(mount_point).f_bsize
    said = tool("dumpe2fs", node)
    size = int(_after(said, "Block size:"))
    for match in _RANGE.finditer(said[said.index("\nGroup 0:") :]):
        first, last = int(match[1]), int(match[2] or match[1])
        found.areas.append(
            Area("metadata", "tables and bitmaps", first * size, (last - first + 1) * size)
        )
    inode = re.search(r"^Journal inode:\s+(\d+)", said, re.MULTILINE)
    if inode is None:
        if "has_journal" in said:
            found.not_told.append("the journal, which is on another device")
        return
    # Level, entries, then blocks of the file, blocks of the device, length; a range of one block
    # has the same form.
    rows = re.findall(
        r"^\s*\d+/\s*\d+\s+\d+/\s*\d+\s+\d+\s*-\s*\d+\s+(\d+)\s*-\s*(\d+)",
        tool("debugfs", "-R", f"dump_extents -l <{inode[1]}>", node),
        re.MULTILINE,
    )
    if not rows:
        found.not_told.append("where the journal is: it has no extents")
    for first, last in rows:
        found.areas.append(
            Area("journal", "journal", int(first) * size, (int(last) - int(first) + 1) * size)
        )


def _after(text: str, key: str) -> str:
    return text.partition(key)[2].split("\n", 1)[0].strip()


_XFS_MAGIC = b"XFSB"


def _xfs(found: OwnAreas, node: Path, _mount_point: Path) -> None:
    with node.open("rb") as device:
        head = device.read(512)
    if head[:4] != _XFS_MAGIC:
        raise ValueError(f"{node} does not begin as XFS does")
    # fs/xfs/libxfs/xfs_format.h, struct xfs_dsb: big-endian.
    (size,) = struct.unpack_from(">L", head, 4)
    (log_start,) = struct.unpack_from(">Q", head, 48)
    group_blocks, _, _, log_blocks = struct.unpack_from(">LLLL", head, 84)
    shift = head[124]
    found.geometry = {
        "block_bytes": size,
        "group_blocks": group_blocks,
        "group_shift": shift,
        "inode_shift": shift + head[123],
    }
    if log_start == 0:
        found.not_told.append("the log, which is on another device")
        return
    # A block's number has its group in the upper bits; groups are not of a power of two.
    block = (log_start >> shift) * group_blocks + (log_start & ((1 << shift) - 1))
    found.areas.append(Area("journal", "log", block * size, log_blocks * size))


_TREE_SEARCH = 0xD0009411
_FS_INFO, _ABOUT_BYTES = 0x8400941F, 1024
_SEARCH_KEY = struct.Struct("=QQQQQQQLLLLQQQQ")
_ITEM_HEAD = struct.Struct("=QQQLL")
_CHUNK = struct.Struct("=QQQQLLLHH")
_STRIPE = struct.Struct("=QQ16s")
_CHUNK_TREE, _CHUNKS_OBJECT, _CHUNK_ITEM = 3, 256, 228
_MOST = 2**64 - 1
_IS_DATA, _STRIPED = 1, (1 << 3) | (1 << 6) | (1 << 7) | (1 << 8)
_SUPERBLOCKS = (64 << 10, 64 << 20, 256 << 30)


def _btrfs(found: OwnAreas, _node: Path, mount_point: Path) -> None:
    found.chunks = []
    handle = os.open(mount_point, os.O_RDONLY)
    try:
        about = array.array("B", bytes(_ABOUT_BYTES))
        fcntl.ioctl(handle, _FS_INFO, about)
        found.geometry["fsid"] = struct.unpack_from("=q", about, 16)[0]
        begin = 0
        while True:
            items = _search(handle, begin)
            for logical, chunk in items:
                _add_chunk(found, logical, chunk)
                begin = logical + 1
            if not items:
                break
    finally:
        os.close(handle)
    found.areas += [Area("metadata", "superblock", at, 4096) for at in _SUPERBLOCKS]


def _search(handle: int, begin: int) -> list[tuple[int, bytes]]:
    """Ask the kernel for items of the chunk tree from an address on.

    BTRFS_IOC_TREE_SEARCH; needs root.
    """
    buffer = array.array("B", bytes(4096))
    key = (
        _CHUNK_TREE,
        _CHUNKS_OBJECT,
        _CHUNKS_OBJECT,
        begin,
        _MOST,
        0,
        _MOST,
        _CHUNK_ITEM,
        _CHUNK_ITEM,
        16,
        0,
        0,
        0,
        0,
        0,
    )
    _SEARCH_KEY.pack_into(buffer, 0, *key)
    fcntl.ioctl(handle, _TREE_SEARCH, buffer)
    count, at, items = _SEARCH_KEY.unpack_from(buffer)[9], _SEARCH_KEY.size, []
    for _ in range(count):
        _, _, offset, _, length = _ITEM_HEAD.unpack_from(buffer, at)
        at += _ITEM_HEAD.size
        items.append((offset, bytes(buffer[at : at + length])))
        at += length
    return items


def _add_chunk(found: OwnAreas, logical: int, item: bytes) -> None:
    length, _, _, kind, _, _, _, stripes, _ = _CHUNK.unpack_from(item)
    if kind & _STRIPED or found.chunks is None:
        raise ValueError("its data are striped over devices")
    for number in range(stripes):
        device, offset, _ = _STRIPE.unpack_from(item, _CHUNK.size + number * _STRIPE.size)
        if device != 1:
            raise ValueError("it is on several devices")
        found.chunks.append(Chunk(logical, offset, length))
        if not kind & _IS_DATA:
            found.areas.append(Area("metadata", "trees", offset, length))
