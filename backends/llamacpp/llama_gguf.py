# SPDX-License-Identifier: BSD-3-Clause
"""Reads the metadata of a GGUF file, without the library."""
import struct

_ARRAY, _STRING = 9, 8
_FORMATS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q",
            12: "<d"}

MAX_ROWS = 1 << 16
MAX_TEXT_BYTES = 16 << 20


class GgufError(Exception):
    """The file is no GGUF file that can be read."""


class _Reader:
    def __init__(self, file):
        self._file = file

    def bytes(self, n):
        found = self._file.read(n)
        if len(found) != n:
            raise GgufError("the file ends within its metadata")
        return found

    def number(self, form):
        return struct.unpack(form, self.bytes(struct.calcsize(form)))[0]

    def text(self):
        n = self.number("<Q")
        if n > MAX_TEXT_BYTES:
            raise GgufError("a text of its metadata has %d bytes" % n)
        return self.bytes(n)

    def skip_array(self):
        kind, n = self.number("<I"), self.number("<Q")
        if kind in _FORMATS:
            self._file.seek(n * struct.calcsize(_FORMATS[kind]), 1)
        elif kind == _STRING:
            for _ in range(n):
                self._file.seek(self.number("<Q"), 1)
        else:
            raise GgufError("an array of its metadata has the type %d" % kind)

    def value(self, kind):
        if kind in _FORMATS:
            return self.number(_FORMATS[kind])
        if kind == _STRING:
            return self.text().decode("utf-8", "replace")
        if kind == _ARRAY:
            return self.skip_array()
        raise GgufError("a value of its metadata has the type %d" % kind)


def read_metadata(path):
    """The metadata as a dictionary; arrays, such as the vocabulary, are None."""
    try:
        with open(path, "rb") as file:
            reader = _Reader(file)
            if file.read(4) != b"GGUF":
                raise GgufError("it is no GGUF file")
            version = reader.number("<I")
            if version not in (2, 3):
                raise GgufError("it has version %d of GGUF; 2 and 3 are known" % version)
            _, n_rows = reader.number("<Q"), reader.number("<Q")
            if n_rows > MAX_ROWS:
                raise GgufError("it has %d rows of metadata" % n_rows)
            found = {}
            for _ in range(n_rows):
                key = reader.text().decode("utf-8", "replace")
                found[key] = reader.value(reader.number("<I"))
            return found
    except OSError as error:
        raise GgufError(error.strerror or str(error)) from None
