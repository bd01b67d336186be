# SPDX-License-Identifier: BSD-3-Clause
from dataclasses import dataclass, field


@dataclass
class FinishedRequestStats:
    e2e_latency: float
    num_prompt_tokens: int
    num_generation_tokens: int


@dataclass
class IterationStats:
    num_prompt_tokens: int = 0
    num_generation_tokens: int = 0
    finished_requests: list = field(default_factory=list)
    time_to_first_tokens_iter: list = field(default_factory=list)
    inter_token_latencies_iter: list = field(default_factory=list)
    n_params_iter: list = field(default_factory=list)


class SchedulerStats:
    pass


class MultiModalCacheStats:
    pass
