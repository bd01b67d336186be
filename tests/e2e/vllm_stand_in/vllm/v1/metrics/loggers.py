# SPDX-License-Identifier: BSD-3-Clause
from typing import Callable


class StatLoggerBase:
    def __init__(self, vllm_config, engine_index=0):
        self.vllm_config, self.engine_index = vllm_config, engine_index


StatLoggerFactory = Callable[..., StatLoggerBase]


def build_1_2_5_buckets(max_value):
    found = [m * 10 ** e for e in range(len(str(max_value))) for m in (1, 2, 5)]
    return [one for one in found if one <= max_value]
