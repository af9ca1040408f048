#!/usr/bin/env python3
"""Writes the character vectors of an R lazy-load database (NAME.rdx and NAME.rdb) as text files, one a
vector, one line an element. Only what such databases of text need is read: the XDR serialization of lists,
strings, numbers and attributes ("R Internals", section Serialization Formats).

usage: rdb_text.py PATH/NAME OUT_FOLDER [VECTOR...]"""
import bz2
import lzma
import os
import struct
import sys
import zlib

SYMBOL, PAIRS, CHARS, LOGICAL, INTEGER, REAL, STRINGS, LIST, BYTES = 1, 2, 9, 10, 13, 14, 16, 19, 24
REFERENCE, NOTHING, ALTERNATIVE = 255, 254, 238
HAS_ATTRIBUTES, HAS_TAG = 0x200, 0x400


class Reader:
    """One serialized object; values become None, bytes, list or (list with names) dict."""

    def __init__(self, data):
        if data[:2] != b"X\n":
            raise ValueError("not an XDR serialization")
        self.data, self.at, self.seen = data, 2, []
        version = self.integer()
        self.at += 8
        if version == 3:
            self.take(self.integer())  # the name of the writer's encoding
        elif version != 2:
            raise ValueError(f"serialization version {version}")

    def take(self, n):
        if n < 0 or self.at + n > len(self.data):
            raise ValueError("the data end early")
        self.at += n
        return self.data[self.at - n:self.at]

    def integer(self):
        return struct.unpack(">i", self.take(4))[0]

    def length(self):
        n = self.integer()
        return n if n >= 0 else (self.integer() << 32) + (self.integer() & 0xFFFFFFFF)

    def pairs(self, flags):
        found = {}
        while flags & 0xFF == PAIRS:
            if flags & HAS_ATTRIBUTES:
                self.item()
            tag = self.item() if flags & HAS_TAG else None
            found[tag] = self.item()
            flags = self.integer()
        if flags & 0xFF != NOTHING:
            raise ValueError("a list that does not end")
        return found

    def item(self):
        flags = self.integer()
        kind = flags & 0xFF
        if kind == NOTHING:
            return None
        if kind == REFERENCE:
            return self.seen[(flags >> 8 or self.integer()) - 1]
        if kind == SYMBOL:
            self.seen.append(self.item())
            return self.seen[-1]
        if kind == CHARS:
            n = self.integer()
            return None if n < 0 else self.take(n)
        if kind == PAIRS:
            return self.pairs(flags)
        if kind == ALTERNATIVE:
            self.item()
            state = self.item()
            self.item()
            return state
        if kind == STRINGS or kind == LIST:
            value = [self.item() for _ in range(self.length())]
        elif kind in (LOGICAL, INTEGER):
            n = self.length()
            value = list(struct.unpack(f">{n}i", self.take(4 * n)))
        elif kind == REAL:
            n = self.length()
            value = list(struct.unpack(f">{n}d", self.take(8 * n)))
        elif kind == BYTES:
            value = self.take(self.length())
        else:
            raise ValueError(f"an object of type {kind}, which holds no text")
        if flags & HAS_ATTRIBUTES:
            names = (self.item() or {}).get(b"names")
            if names and kind == LIST:
                value = dict(zip(names, value))
        return value


def unpack(block):
    """A block of the database: length, a letter for some methods, compressed bytes."""
    method, body = block[4:5], block[5:]
    if method == b"2":
        data = bz2.decompress(body)
    elif method == b"Z":
        data = lzma.decompress(body, lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA2, "preset": 6}])
    else:
        data = zlib.decompress(block[4:])
    if len(data) != struct.unpack(">I", block[:4])[0]:
        raise ValueError("a block has not the length it states")
    return data


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    path, out, wanted = sys.argv[1], sys.argv[2], sys.argv[3:]
    with open(path + ".rdx", "rb") as file:
        places = Reader(zlib.decompress(file.read(), 47)).item()[b"variables"]  # 47: zlib or gzip
    with open(path + ".rdb", "rb") as file:
        database = file.read()
    names = [name.encode() for name in wanted] or sorted(places)
    for name in names:
        if name not in places:
            sys.exit(f"{path}: there is no {name.decode()}; there are {b', '.join(sorted(places)).decode()}")
        offset, n = places[name]
        lines = Reader(unpack(database[offset:offset + n])).item()
        if not isinstance(lines, list) or not all(line is None or isinstance(line, bytes) for line in lines):
            sys.exit(f"{path}: {name.decode()} is no character vector")
        with open(os.path.join(out, name.decode() + ".txt"), "wb") as file:
            file.write(b"".join((line or b"") + b"\n" for line in lines))


if __name__ == "__main__":
    main()
