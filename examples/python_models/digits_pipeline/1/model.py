# SPDX-License-Identifier: BSD-3-Clause
"""Reads digits with a scikit-learn pipeline, which is trained while the model loads.

It learns the digits that come with scikit-learn, without those that examples/data holds out. All pictures
of an execution are classified at once, whichever requests they came with.
"""
import os

import numpy as np
import triton_python_backend_utils as pb_utils
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

HELD_OUT = "data/heldout_images.f32"


def training_set(examples):
    """Pictures and labels."""
    digits = load_digits()
    held_out = {picture.tobytes() for picture in
                np.fromfile(os.path.join(examples, HELD_OUT), "<f4").reshape(-1, 64)}
    is_ours = [picture.tobytes() not in held_out for picture in digits.data.astype("<f4")]
    return digits.data[is_ours], digits.target[is_ours]


class TritonPythonModel:
    def initialize(self, args):
        pictures, labels = training_set(os.path.join(args["model_repository"], "..", ".."))
        self.pipeline = make_pipeline(StandardScaler(), PCA(40), SVC(C=10, gamma=0.01))
        self.pipeline.fit(pictures, labels)
        pb_utils.Logger.log_info("learned from %d pictures" % len(labels))

    def execute(self, requests):
        pictures = [pb_utils.get_input_tensor_by_name(request, "image").as_numpy()
                    for request in requests]
        digits = self.pipeline.predict(np.concatenate(pictures)).astype(np.int32)
        ends = np.cumsum([len(few) for few in pictures])
        return [pb_utils.InferenceResponse([pb_utils.Tensor("digit", part.reshape(-1, 1))])
                for part in np.split(digits, ends[:-1])]
