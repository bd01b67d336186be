# SPDX-License-Identifier: BSD-3-Clause
from dataclasses import dataclass, field


@dataclass
class ModelConfig:
    model: str
    max_model_len: int
    runner: str = "auto"


@dataclass
class VllmConfig:
    model_config: ModelConfig
    additional_config: dict = field(default_factory=dict)
