#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Sent configurations with large implicit states: what the server holds is bounded.

A client that may load models sends a configuration with a state of 2 GiB in a few hundred bytes, and
one with a state of 32 MiB, of which it begins sequence after sequence. --memory-budget is 64 MiB.
"""
import json

import attack

import requests

MIB = 1 << 20
BUDGET = 64 * MIB
N_SEQUENCES = 12
SECONDS = 60


def config(n_bytes):
    return json.dumps({
        "backend": "identity", "max_batch_size": 0,
        "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
        "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
        "sequence_batching": {"oldest": {"max_candidate_sequences": N_SEQUENCES}, "state": [{
            "input_name": "IN", "output_name": "OUT", "data_type": "TYPE_UINT8",
            "dims": [n_bytes]}]}})


def load(server, n_bytes):
    return requests.post(server.url + "/v2/repository/models/m/load", timeout=SECONDS,
                         json={"parameters": {"config": config(n_bytes)}}).status_code


def begin(server, sequence):
    return requests.post(server.url + "/v2/models/m/infer", timeout=SECONDS, json={
        "parameters": {"sequence_id": sequence, "sequence_start": True}, "inputs": [
            {"name": "INPUT0", "datatype": "FP32", "shape": [1], "data": [1]}]}).status_code


def measure():
    with attack.server({"m": attack.IDENTITY}, "--model-control-mode=explicit",
                       f"--memory-budget={BUDGET}") as server:
        yield attack.Figure("status of the load with a state of 2 GiB", load(server, 2 << 30), "",
                            at_least=400)
        load(server, 32 * MIB)
        before = attack.resident_bytes(server.process)
        statuses = [begin(server, 1 + i) for i in range(N_SEQUENCES)]
        grown = attack.resident_bytes(server.process) - before
        yield attack.Figure("memory of 12 sequences with a state of 32 MiB", grown / MIB, "MiB",
                            at_most=1.25 * BUDGET / MIB)
        yield attack.Figure("sequences refused", sum(s == 503 for s in statuses), "", at_least=1)
        yield attack.Figure("sequences served", sum(s == 200 for s in statuses), "", at_least=1)
        yield attack.Figure("other answers", sum(s not in (200, 503) for s in statuses), "", 0)


if __name__ == "__main__":
    attack.main(measure, __doc__)
