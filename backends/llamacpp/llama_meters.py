# SPDX-License-Identifier: BSD-3-Clause
"""The metrics of an instance. A change costs a question to the server, so a thread that does not compute
publishes them, at most once in INTERVAL_SECONDS."""
import time

import triton_python_backend_utils as pb_utils

INTERVAL_SECONDS = 0.1


class Meters:
    def __init__(self, model, version, instance):
        self.n_cached = 0  # prompt tokens that were in memory; the loop counts
        self._labels = {"model": model, "version": version, "instance": instance}
        self._published_at = 0.0
        self._cached_published = 0
        self._metrics = None

    def open(self):
        family, gauge = pb_utils.MetricFamily, pb_utils.MetricFamily.GAUGE
        families = (
            family("neso_llm_requests_running", "Number of sequences that are being generated", gauge),
            family("neso_llm_requests_waiting", "Number of sequences that wait in the backend for a slot",
                   gauge),
            family("neso_llm_kv_usage_ratio", "Part of the memory for tokens that is in use", gauge),
            family("neso_llm_cached_prompt_tokens_total",
                   "Number of prompt tokens that were not computed again", pb_utils.MetricFamily.COUNTER))
        self._metrics = [one.Metric(labels=self._labels) for one in families]
        self._families = families  # they must outlive their metrics

    def publish(self, loop):
        if self._metrics is None:
            return
        now = time.monotonic()
        if loop.jobs and now - self._published_at < INTERVAL_SECONDS:
            return
        self._published_at = now
        for metric, value in zip(self._metrics, loop.usage()):
            metric.set(value)
        cached = self.n_cached
        if cached > self._cached_published:
            self._metrics[3].increment(cached - self._cached_published)
            self._cached_published = cached
