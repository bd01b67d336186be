# SPDX-License-Identifier: BSD-3-Clause
"""What vLLM's parameters have in common: named fields with defaults, and a word about a name that is none."""


class Struct:
    """`given`: what it was made with."""

    def __init__(self, **values):
        names = {name for one in type(self).__mro__ for name in vars(one).get("__annotations__", {})}
        for name in values:
            if name not in names:
                raise TypeError(f"Unexpected keyword argument '{name}'")
        vars(self).update(values, given=values)
        self.__post_init__()

    def __post_init__(self):
        pass
