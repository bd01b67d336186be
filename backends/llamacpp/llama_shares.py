# SPDX-License-Identifier: BSD-3-Clause
"""How the prompts that are being read share the tokens of a step. Plain numbers in, plain numbers out."""


def divide_room(room, left):
    """How many tokens each prompt gets. `left`: tokens that each has still to read, the oldest prompt first.

    Half of the room is divided equally, so none starves; what is left goes to the prompts that need least, so
    a short one is read in one step. The oldest gets a token even when there are more prompts than room.
    """
    if len(left) == 1:
        return [min(room, left[0])]
    floor = room // (2 * len(left))
    sizes = [min(floor, n) for n in left]
    if floor == 0:
        sizes[0] = min(1, room)
    rest = room - sum(sizes)
    for i in sorted(range(len(left)), key=left.__getitem__):  # the oldest first among equals
        if rest == 0:
            break
        more = min(rest, left[i] - sizes[i])
        sizes[i] += more
        rest -= more
    return sizes
