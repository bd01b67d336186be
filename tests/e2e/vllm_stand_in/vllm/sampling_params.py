# SPDX-License-Identifier: BSD-3-Clause
from typing import Any, Optional

from vllm.structs import Struct


class StructuredOutputsParams(Struct):
    json: Any = None
    regex: Optional[str] = None
    choice: Optional[list] = None
    grammar: Optional[str] = None
    json_object: Optional[bool] = None
    whitespace_pattern: Optional[str] = None

    def __post_init__(self):
        kinds = [k for k in self.given if k != "whitespace_pattern"]
        if len(kinds) != 1:
            raise ValueError(f"You can only use one kind of structured outputs constraint but got {kinds}")


class SamplingParams(Struct):
    n: int = 1
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: Optional[int] = None
    stop: Any = None
    stop_token_ids: Optional[list] = None
    ignore_eos: bool = False
    max_tokens: Optional[int] = 16
    min_tokens: int = 0
    logprobs: Optional[int] = None
    prompt_logprobs: Optional[int] = None
    skip_special_tokens: bool = True
    structured_outputs: Optional[StructuredOutputsParams] = None
    logit_bias: Optional[dict] = None

    def __post_init__(self):
        for name, least in (("n", 1), ("temperature", 0), ("max_tokens", 1), ("logprobs", 0)):
            if name in self.given and self.given[name] < least:
                raise ValueError(f"{name} must be at least {least}, got {self.given[name]}.")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be in (0, 1], got {self.top_p}.")

    def __repr__(self):
        return f"SamplingParams({self.given})"
