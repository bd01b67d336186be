# SPDX-License-Identifier: BSD-3-Clause
from vllm.inputs.data import TokensPrompt

__all__ = ["TokensPrompt"]
