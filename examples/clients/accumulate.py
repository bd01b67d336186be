#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Adds up numbers, one request for each: the server remembers the sum.

    accumulate.py [NUMBER ...]     by default 1 2 3; the server is NESO_URL or http://localhost:8000

The requests are one sequence: the same id in all of them, START in the first one and END in the
last one. Between them, the sum is nowhere but in the server.
"""
import os
import sys
import uuid

import requests


def add(url, session, number, sequence, start, end):
    reply = session.post(f"{url}/v2/models/accumulator/infer", timeout=10, json={
        "parameters": {"sequence_id": sequence, "sequence_start": start, "sequence_end": end},
        "inputs": [{"name": "number", "datatype": "FP32", "shape": [1, 1], "data": [number]}]})
    if reply.status_code != 200:
        sys.exit(f"{reply.status_code}: {reply.json()['error']}")
    return reply.json()["outputs"][0]["data"][0]


def main():
    numbers = [float(text) for text in sys.argv[1:]] or [1.0, 2.0, 3.0]
    url = os.environ.get("NESO_URL", "http://localhost:8000")
    sequence = str(uuid.uuid4())
    with requests.Session() as session:
        for place, number in enumerate(numbers, 1):
            total = add(url, session, number, sequence, place == 1, place == len(numbers))
            print(f"+ {number:g} = {total:g}")


if __name__ == "__main__":
    main()
