# SPDX-License-Identifier: BSD-3-Clause
"""Reads a digit by letting the model "digits" vote on it: the picture as it is, and moved by a pixel to
each side. All five go to that model as one batch, in the server's memory."""
import numpy as np
import triton_python_backend_utils as pb_utils

NAMES = "zero one two three four five six seven eight nine".split()


def moved(picture, rows, columns):
    """The picture with paper (0) where pixels went away."""
    result = np.zeros_like(picture)
    result[max(rows, 0):8 + min(rows, 0), max(columns, 0):8 + min(columns, 0)] = \
        picture[max(-rows, 0):8 - max(rows, 0), max(-columns, 0):8 - max(columns, 0)]
    return result


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        picture = pb_utils.get_input_tensor_by_name(request, "image").as_numpy().reshape(8, 8)
        pictures = np.stack([picture, *(moved(picture, *step)
                                        for step in ((0, 1), (0, -1), (1, 0), (-1, 0)))])
        reply = pb_utils.InferenceRequest(
            model_name="digits", requested_output_names=["probabilities"],
            inputs=[pb_utils.Tensor("image", pictures.reshape(5, 64))]).exec()
        if reply.has_error():
            return pb_utils.InferenceResponse(error=reply.error())
        votes = reply.output_tensors()[0].as_numpy().mean(axis=0)
        name = NAMES[int(votes.argmax())]
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor("digit", np.array([name], dtype=np.object_)),
             pb_utils.Tensor("votes", votes)], parameters={"pictures": len(pictures)})
