"""The members of a tar by their headers alone: names and places, no contents read.

A header is 512 bytes in front of its member (POSIX.1-1988 ustar); long names come as a member of their own before it,
of type "L" (GNU) or "x" (POSIX.1-2001 pax). Every header carries a sum over itself, so damage is seen where it is.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

from models.errors import StudioError

BLOCK = 512
End = Literal["whole", "no end mark", "cut", "damaged", "more behind its end mark"]
_ZERO = bytes(BLOCK)
_LARGEST_PADDING = 4 << 20  # bytes of zeros behind an end mark; writers fill up to 10 KiB, tapes to less than this
_LARGEST_EXTENSION = 1 << 20  # bytes of a long name or pax record; more is damage
_WITHOUT_DATA = b"123456"  # links, devices, folders, pipes
_COMPRESSED = {b"\x1f\x8b": "gzip", b"BZ": "bzip2", b"\xfd7": "xz", b"\x28\xb5": "zstd"}


class Member(NamedTuple):
    """A file in a tar: its name, and where its first header, its data and their end are, in bytes."""

    name: str
    header: int
    data: int
    size: int


@dataclass(frozen=True)
class Headers:
    """The files of a tar in their order.

    Attributes:
        members: those that lie in it as a whole.
        cut: name of the file that the tar ends in the middle of, or "".
        end: "whole"; "no end mark", as tars end that were not closed; "cut" in a member; "damaged" at a header; "more
            behind its end mark", as tars have it that were joined end to end, or whose rest was never written.
        at: where reading ended, in bytes.
    """

    members: list[Member]
    cut: str
    end: End
    at: int


def read_headers(path: Path) -> Headers:
    """Scan a tar up to its end mark, its cut or its damage.

    Raises:
        StudioError: it is compressed, so that nothing can be read by position, or it cannot be opened.
    """
    try:
        with path.open("rb", buffering=0) as file:
            length = os.fstat(file.fileno()).st_size
            packed = _COMPRESSED.get(file.read(2))
            if packed:
                raise StudioError(
                    f"{path} is compressed ({packed}), so its samples cannot be read by position: unpack it to a "
                    "plain .tar; the pictures in it are compressed already."
                )
            return _scan(file, length)
    except OSError as error:
        raise StudioError(f"{path} cannot be read ({error}): check the disk and its permissions.") from error


def member_name(path: Path, header: int) -> str:
    """The name of the member whose first header is at byte `header`, or "" if it can no longer be read."""
    try:
        with path.open("rb", buffering=0) as file:
            found = _next(file, header, os.fstat(file.fileno()).st_size)
    except OSError:
        return ""
    return found[0].name if isinstance(found, tuple) and found[0] else ""


def _scan(file: BinaryIO, length: int) -> Headers:
    members: list[Member] = []
    at = 0
    while True:
        found = _next(file, at, length)
        if isinstance(found, str):
            return Headers(members, "", found, min(at, length))
        member, after = found
        if member and member.data + member.size > length:
            return Headers(members, member.name, "cut", at)
        if member:
            members.append(member)
        at = after


def _next(file: BinaryIO, start: int, length: int) -> tuple[Member | None, int] | End:
    """The member at `start`, None for what is no file, and where the next one begins; or how the tar ends here."""
    at, name, size = start, "", -1
    while True:
        file.seek(at)
        block = file.read(BLOCK)
        if len(block) < BLOCK:
            return "no end mark" if not block and at == start else "cut"
        if block == _ZERO:
            if at > start:
                return "damaged"
            return "more behind its end mark" if _goes_on(file) else "whole"
        if not _sum_is_right(block):
            return "damaged"
        kind, own, data = block[156:157], _number(block[124:136]), at + BLOCK
        if own < 0:
            return "damaged"
        if kind in b"LKxg":
            if own > _LARGEST_EXTENSION:
                return "damaged"
            if data + own > length:
                return "cut"
            content = file.read(own)
            if kind == b"L":
                name = _text(content)
            elif kind == b"x":
                name, size = _pax(content, name, size)
            at = data + _padded(own)
            continue
        if kind in _WITHOUT_DATA:
            return None, data
        own = size if size >= 0 else own
        after = data + _padded(own)
        if kind not in (b"0", b"\0", b"7"):
            return None, after
        return Member(name or _name(block), start, data, own), after


def _goes_on(file: BinaryIO) -> bool:
    """Whether more than padding follows."""
    rest = file.read(_LARGEST_PADDING + 1)
    return len(rest) > _LARGEST_PADDING or rest.count(0) < len(rest)


def _sum_is_right(block: bytes) -> bool:
    """Whether the bytes add up to the number in the header, whose own eight bytes count as spaces."""
    return sum(block) - sum(block[148:156]) + 8 * 32 == _number(block[148:156])


def _number(field: bytes) -> int:
    """An octal number, or a binary one as GNU writes sizes from 8 GiB on; -1 for neither."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    try:
        return int(field.split(b"\0", 1)[0].strip() or b"0", 8)
    except ValueError:
        return -1


def _name(block: bytes) -> str:
    name = _text(block[:100])
    prefix = _text(block[345:500]) if block[257:263] == b"ustar\0" else ""
    return f"{prefix}/{name}" if prefix else name


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _pax(content: bytes, name: str, size: int) -> tuple[str, int]:
    """The name and the size that pax records "LENGTH KEY=VALUE\\n" give, or those given so far."""
    while content:
        digits, _, _ = content.partition(b" ")
        length = int(digits) if digits.isdigit() else 0
        if not len(digits) + 1 < length <= len(content):
            break
        key, _, value = content[len(digits) + 1 : length - 1].partition(b"=")
        if key == b"path":
            name = value.decode("utf-8", "surrogateescape")
        elif key == b"size" and value.isdigit():
            size = int(value)
        content = content[length:]
    return name, size
