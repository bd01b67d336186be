# SPDX-License-Identifier: BSD-3-Clause
import uuid


def random_uuid():
    return uuid.uuid4().hex
