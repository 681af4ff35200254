"""Server-sent events, read as bytes arrive: whatever the network cut, the events are the same.

Only the `data` of events matters to providers' streams: each says in its JSON what it is. So this
reader yields the data alone, as bytes; `event`, `id`, `retry` and comments are passed over.
"""

from __future__ import annotations

import re

__all__ = ["EventReader"]

_BOM = b"\xef\xbb\xbf"


class EventReader:
    """Feed it each read; it gives the data of every event that is complete.

    Lines end with LF, CR LF or CR. Cost is linear in the bytes, however they are cut.
    """

    __slots__ = ("_after_cr", "_at_start", "_data", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []  # of a line whose end has not come
        self._data: list[bytes] = []  # data lines of an event whose end has not come
        self._after_cr = False  # the last byte was a CR: an LF that follows belongs to it
        self._at_start = True

    def feed(self, read: bytes) -> list[bytes]:
        """The data of the events that `read` completes, in order; several lines joined by LF."""
        if self._at_start:
            read = self._without_bom(read)
        if self._after_cr and read:
            self._after_cr = False
            if read[0] == 10:
                read = read[1:]
        if b"\r" in read:
            self._after_cr = read[-1] == 13
            read = read.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in read:
            if read:
                self._pieces.append(read)
            return []
        if self._pieces:
            self._pieces.append(read)
            read = b"".join(self._pieces)
            self._pieces.clear()
        end = read.rfind(b"\n\n") + 2
        found = _usual_events(read, end) if end > 1 and not self._data else None
        if found is None:
            return self._by_lines(read)
        return found + self._by_lines(read[end:]) if end < len(read) else found

    def _by_lines(self, read: bytes) -> list[bytes]:
        lines = read.split(b"\n")
        rest = lines.pop()
        if rest:
            self._pieces.append(rest)
        return self._events(lines)

    def finish(self) -> list[bytes]:
        """What is left when the stream has ended without the blank line that ends an event."""
        if self._at_start:
            self._at_start = False  # fewer bytes than a byte order mark has
        lines = [b"".join(self._pieces), b""]
        self._pieces.clear()
        return self._events(lines)

    def _events(self, lines: list[bytes]) -> list[bytes]:
        found: list[bytes] = []
        data = self._data
        for line in lines:
            if line[:5] == b"data:":
                # One space after the colon is no part of the value.
                data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif not line:
                if data:
                    found.append(data[0] if len(data) == 1 else b"\n".join(data))
                    data.clear()
            elif line == b"data":
                data.append(b"")
        return found

    def _without_bom(self, read: bytes) -> bytes:
        read = b"".join(self._pieces) + read
        self._pieces.clear()
        if len(read) < len(_BOM) and _BOM.startswith(read):
            if read:
                self._pieces.append(read)
            return b""
        self._at_start = False
        return read.removeprefix(_BOM)


def _usual_events(read: bytes, end: int) -> list[bytes] | None:
    """The data of events in one of the usual forms, without looking at single lines.

    That is four times as fast. `None`: there are other lines before `end`.
    """
    if read.startswith(b"data: "):
        found = read[6 : end - 2].split(b"\n\ndata: ")
        return found if read.count(b"\n", 0, end) == 2 * len(found) else None
    if read.startswith(b"event: "):
        found = _NAMED(read, 0, end)
        return found if read.count(b"\n", 0, end) == 3 * len(found) else None
    return None


_NAMED = re.compile(rb"(?m)^event: .*\ndata: (.*)\n\n").findall
"""The data of events that are each a name and one line of data."""
