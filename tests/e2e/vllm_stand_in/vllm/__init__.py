# SPDX-License-Identifier: BSD-3-Clause
"""A stand-in for the package vllm, so that Triton's vLLM backend runs unmodified without a GPU and without a model: the
names that it imports, and an engine that answers with the words of the prompt (stand_in_words.py)."""
