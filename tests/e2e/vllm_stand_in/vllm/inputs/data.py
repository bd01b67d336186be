# SPDX-License-Identifier: BSD-3-Clause


class TokensPrompt(dict):
    pass
