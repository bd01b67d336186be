# SPDX-License-Identifier: BSD-3-Clause
from typing import Optional

from vllm.structs import Struct


class PoolingParams(Struct):
    task: Optional[str] = None
    dimensions: Optional[int] = None
