# SPDX-License-Identifier: BSD-3-Clause
"""What the engine yields; texts and tokens are those since the beginning, as vLLM's default is."""
from dataclasses import dataclass
from typing import Generic, Optional, TypeVar

T = TypeVar("T")


@dataclass
class Logprob:
    logprob: float
    rank: Optional[int] = None
    decoded_token: Optional[str] = None


@dataclass
class CompletionOutput:
    index: int
    text: str
    token_ids: list
    cumulative_logprob: Optional[float]
    logprobs: Optional[list]
    finish_reason: Optional[str] = None


@dataclass
class RequestOutput:
    request_id: str
    prompt: str
    prompt_token_ids: list
    outputs: list
    finished: bool


@dataclass
class PoolingOutput:
    data: list


@dataclass
class PoolingRequestOutput(Generic[T]):
    request_id: str
    outputs: T
    prompt_token_ids: list
    finished: bool


@dataclass
class EmbeddingOutput:
    embedding: list


class EmbeddingRequestOutput(PoolingRequestOutput[EmbeddingOutput]):
    @staticmethod
    def from_base(output):
        return EmbeddingRequestOutput(output.request_id, EmbeddingOutput(output.outputs.data),
                                      output.prompt_token_ids, output.finished)
