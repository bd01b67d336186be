#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the tables of src/codec/pow10_table.h, whose comments define the entries, as a C file.

  make_pow10.py OUTPUT HEADER
"""
import re
import sys


def upper_bits(q):
    """The smallest integer that is not below 10^q, shifted so that it has 128 bits."""
    if q >= 0:
        shift = (10**q).bit_length() - 128
        return -(-10**q >> shift) if shift > 0 else 10**q << -shift
    power = 10**-q
    return -(-(1 << power.bit_length() + 127) // power)


def main():
    output, header = sys.argv[1:]
    with open(header, encoding="ascii") as file:
        text = file.read()
    least, most = (int(re.search(rf"#define {name} \(?(-?\d+)", text)[1]) for name in ("POW10_MIN", "POW10_MAX"))
    entries = (upper_bits(q) for q in range(least, most + 1))
    lines = ["/* Made by tools/make_pow10.py. */", '#include "codec/pow10_table.h"', "",
             "const struct pow10 pow10_table[POW10_MAX - POW10_MIN + 1] = {",
             *(f"        {{ 0x{g >> 64:016x}, 0x{g & (1 << 64) - 1:016x} }}," for g in entries), "};", "",
             "const uint64_t pow10_u64[20] = {", *(f"        {10**n}u," for n in range(20)), "};", ""]
    with open(output, "w", encoding="ascii") as file:
        file.write("\n".join(lines))


main()
