# SPDX-License-Identifier: BSD-3-Clause
from vllm.config import ModelConfig, VllmConfig
from vllm.structs import Struct


class AsyncEngineArgs(Struct):
    model: str = "stand-in"
    dtype: str = "auto"
    runner: str = "auto"
    max_model_len: int = 2048
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    gpu_memory_utilization: float = 0.9
    enforce_eager: bool = False
    enable_lora: bool = False
    max_lora_rank: int = 16
    disable_log_stats: bool = False
    enable_log_requests: bool = False
    aggregate_engine_logging: bool = False
    additional_config: dict = {}

    def create_engine_config(self, usage_context=None):
        assert usage_context is not None
        if self.model == "missing":
            raise ValueError(f"Repo id '{self.model}' is not found")
        return VllmConfig(ModelConfig(self.model, self.max_model_len, self.runner), self.additional_config)
