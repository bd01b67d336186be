#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Asks a server for the three likeliest readings of a handwritten digit.

    classify.py [NUMBER] [URL]     by default 0 and http://localhost:8000

NUMBER is that of a held-out digit in examples/data, 0 to 359. All that it takes is requests and
the standard library: the values travel as they are in memory (KServe v2, binary tensor extension).
"""
import json
import pathlib
import sys

import requests

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
PIXELS = 64
IMAGE_BYTES = PIXELS * 4


def read_digit(number):
    """Raw little-endian FP32, and what was meant."""
    with open(DATA / "heldout_images.f32", "rb") as file:
        file.seek(number * IMAGE_BYTES)
        image = file.read(IMAGE_BYTES)
    labels = (DATA / "heldout_labels.u8").read_bytes()
    if number < 0 or len(image) != IMAGE_BYTES:
        sys.exit(f"there are digits 0 to {len(labels) - 1}")
    return image, labels[number]


def classify(url, image):
    head = json.dumps({
        "inputs": [{"name": "image", "datatype": "FP32", "shape": [1, PIXELS],
                    "parameters": {"binary_data_size": len(image)}}],
        "outputs": [{"name": "probabilities", "parameters": {"classification": 3}}],
    }).encode()
    reply = requests.post(f"{url}/v2/models/digits/infer", data=head + image, timeout=10,
                          headers={"Inference-Header-Content-Length": str(len(head))})
    if reply.status_code != 200:
        sys.exit(f"{reply.status_code}: {reply.json()['error']}")
    return reply.json()["outputs"][0]["data"]


def main():
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    url = sys.argv[2] if len(sys.argv) > 2 else "http://localhost:8000"
    image, truth = read_digit(number)
    for text in classify(url, image):
        probability, _, label = text.split(":")
        print(f"{label:6} {float(probability):.4f}")
    print(f"it is  {truth}")


if __name__ == "__main__":
    main()
