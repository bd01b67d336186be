# SPDX-License-Identifier: BSD-3-Clause
from enum import Enum


class UsageContext(Enum):
    OPENAI_API_SERVER = "OPENAI_API_SERVER"
