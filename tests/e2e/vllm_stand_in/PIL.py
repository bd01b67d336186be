# SPDX-License-Identifier: BSD-3-Clause
"""A stand-in for Pillow: an image is its bytes."""


class Image:
    def __init__(self, data):
        self.data = data

    @classmethod
    def open(cls, file):
        return cls(file.read())

    def convert(self, mode):
        assert mode == "RGB"
        return self
