# SPDX-License-Identifier: BSD-3-Clause
"""Answers with the first N primes, one response each as it is found, and stops when the client has gone.

A decoupled model: a generator makes the answers, a thread for each request sends them, and execute()
returns at once, so requests are served side by side.
"""
import itertools
import threading

import numpy as np
import triton_python_backend_utils as pb_utils


def primes():
    found = []
    for number in itertools.count(2):
        if all(number % prime for prime in itertools.takewhile(lambda p: p * p <= number, found)):
            found.append(number)
            yield number


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            n = int(pb_utils.get_input_tensor_by_name(request, "N").as_numpy()[0])
            threading.Thread(target=self.answer, args=(request.get_response_sender(), n)).start()

    def answer(self, sender, n):
        for index, prime in enumerate(itertools.islice(primes(), max(n, 0))):
            if sender.is_cancelled():
                break
            sender.send(pb_utils.InferenceResponse(
                [pb_utils.Tensor("prime", np.array([prime], np.int64))], parameters={"index": index}))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
