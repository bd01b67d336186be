# SPDX-License-Identifier: BSD-3-Clause
"""Measures how much ink a picture of a digit has, with metrics of its own on the server's metrics page:
a counter, a gauge and a histogram. They leave the page with the model."""
import numpy as np
import triton_python_backend_utils as pb_utils

FULL = 16.0  # a pixel that is all ink


class TritonPythonModel:
    def initialize(self, args):
        labels = {"model": args["model_name"]}
        self.families = [
            pb_utils.MetricFamily("example_pictures_total", "Pictures that were measured",
                                  pb_utils.MetricFamily.COUNTER),
            pb_utils.MetricFamily("example_ink_last", "Share of ink in the last picture",
                                  pb_utils.MetricFamily.GAUGE),
            pb_utils.MetricFamily("example_ink", "Share of ink in a picture",
                                  pb_utils.MetricFamily.HISTOGRAM)]
        self.count, self.last = (family.Metric(labels) for family in self.families[:2])
        self.shares = self.families[2].Metric(labels, [0.1, 0.2, 0.3, 0.4, 0.5])

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        picture = pb_utils.get_input_tensor_by_name(request, "image").as_numpy()
        share = float(picture.mean()) / FULL
        self.count.increment(1)
        self.last.set(share)
        self.shares.observe(share)
        return pb_utils.InferenceResponse([pb_utils.Tensor("ink", np.array([share], np.float32))])
