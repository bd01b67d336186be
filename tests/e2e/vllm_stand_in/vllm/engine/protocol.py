# SPDX-License-Identifier: BSD-3-Clause


class EngineClient:
    pass
