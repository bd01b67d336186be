#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains the network of examples/models/digits and writes it with the digits it has not seen.

    train_digits.py [--epochs N] [--models FOLDER] [--data FOLDER]

The digits are the 1797 handwritten ones that come with scikit-learn: 8x8 pixels from 0 to 16. A
seeded shuffle keeps the last 360 out of the training; nothing is chosen by looking at them. The
network is a small convolutional one, written and trained here with numpy alone:

    image [64] -> 8x8x1 -> conv 3x3 32, ReLU -> conv 3x3 64, ReLU -> conv 3x3 64, ReLU
                        -> pool 2x2 -> 4x4x64 -> dense 10 -> softmax

About 3.6 million multiply-adds for each image, so that what takes the time is to run it, not to
serve it. Pixels are scaled by the weights of the first layer, so that clients send them as they
are. One thread and a fixed seed: the same machine writes the same file again; another one may
round differently and end a few digits apart.

Needs python3-numpy, python3-sklearn and python3-onnx; takes a few minutes.
"""
import argparse
import os
import pathlib

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: its sums depend on it

import numpy
import onnx
import sklearn.datasets
from onnx import TensorProto, helper, numpy_helper

EXAMPLES = pathlib.Path(__file__).resolve().parent

SEED = 20240607
N_HELD_OUT = 360
N_CLASSES = 10
PIXEL_MAX = 16.0

BATCH = 64
EPOCHS = 30
LEARNING_RATE = 2e-3  # at the start; it falls along half a cosine
WEIGHT_DECAY = 1e-4
ADAM_MEAN, ADAM_SQUARE, ADAM_EPSILON = 0.9, 0.999, 1e-8

# Releases of ONNX Runtime since 1.14 read both.
OPSET = 17
IR_VERSION = 8


# ---- layers: arrays are [image, row, column, channel] ------------------------------------------


def patches(images):
    """The 3x3 surroundings of every pixel, zeros outside: [n, rows, columns, 9 * channels]."""
    _, rows, columns, _ = images.shape
    padded = numpy.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    return numpy.concatenate([padded[:, y:y + rows, x:x + columns]
                              for y in range(3) for x in range(3)], axis=3)


def gather_patches(gradients, n_channels):
    """What patches() did, backwards: every pixel gets the sum of what its copies got."""
    n, rows, columns, _ = gradients.shape
    padded = numpy.zeros((n, rows + 2, columns + 2, n_channels), numpy.float32)
    for place in range(9):
        y, x = divmod(place, 3)
        padded[:, y:y + rows, x:x + columns] += (
            gradients[..., place * n_channels:(place + 1) * n_channels])
    return padded[:, 1:-1, 1:-1]


class Parameter:
    def __init__(self, value):
        self.value = value.astype(numpy.float32)
        self.gradient = numpy.zeros_like(self.value)
        self.mean = numpy.zeros_like(self.value)
        self.square = numpy.zeros_like(self.value)

    def step(self, number, rate):
        """Adam with decoupled weight decay (of weights, not of biases)."""
        self.mean += (1 - ADAM_MEAN) * (self.gradient - self.mean)
        self.square += (1 - ADAM_SQUARE) * (self.gradient ** 2 - self.square)
        mean = self.mean / (1 - ADAM_MEAN ** number)
        square = self.square / (1 - ADAM_SQUARE ** number)
        if self.value.ndim > 1:
            self.value *= 1 - rate * WEIGHT_DECAY
        self.value -= rate * mean / (numpy.sqrt(square) + ADAM_EPSILON)


class Dense:
    """weight [inputs, outputs], applied to the last axis."""

    def __init__(self, random, n_inputs, n_outputs):
        spread = (2.0 / n_inputs) ** 0.5  # He et al. 2015: keeps the variance through ReLU
        self.weight = Parameter(random.normal(0, spread, (n_inputs, n_outputs)))
        self.bias = Parameter(numpy.zeros(n_outputs))
        self.parameters = [self.weight, self.bias]

    def forward(self, x):
        self.x = x
        return x @ self.weight.value + self.bias.value

    def backward(self, gradient):
        rows = gradient.reshape(-1, gradient.shape[-1])
        self.weight.gradient = self.x.reshape(len(rows), -1).T @ rows
        self.bias.gradient = rows.sum(axis=0)
        return gradient @ self.weight.value.T


class Conv(Dense):
    """3x3, stride 1, zeros around; a dense layer on patches, followed by ReLU."""

    def __init__(self, random, n_inputs, n_outputs):
        super().__init__(random, 9 * n_inputs, n_outputs)
        self.n_inputs, self.n_outputs = n_inputs, n_outputs

    def forward(self, x):
        self.y = numpy.maximum(super().forward(patches(x)), 0)
        return self.y

    def backward(self, gradient):
        return gather_patches(super().backward(gradient * (self.y > 0)), self.n_inputs)


class Pool:
    """The largest of 2x2."""

    parameters = []

    def forward(self, x):
        n, rows, columns, channels = x.shape
        self.x = x.reshape(n, rows // 2, 2, columns // 2, 2, channels)
        self.y = self.x.max(axis=(2, 4), keepdims=True)
        return self.y[:, :, 0, :, 0]

    def backward(self, gradient):
        n, rows, _, columns, _, channels = self.x.shape
        spread = (self.x == self.y) * gradient[:, :, None, :, None]
        return spread.reshape(n, 2 * rows, 2 * columns, channels)


class Flatten:
    parameters = []

    def forward(self, x):
        self.shape = x.shape
        return x.reshape(len(x), -1)

    def backward(self, gradient):
        return gradient.reshape(self.shape)


class Network:
    def __init__(self, random):
        self.convs = [Conv(random, 1, 32), Conv(random, 32, 64), Conv(random, 64, 64)]
        self.dense = Dense(random, 4 * 4 * 64, N_CLASSES)
        self.layers = [*self.convs, Pool(), Flatten(), self.dense]
        self.parameters = [p for layer in self.layers for p in layer.parameters]

    def probabilities(self, images):
        x = (images / PIXEL_MAX).reshape(-1, 8, 8, 1)
        for layer in self.layers:
            x = layer.forward(x)
        x = numpy.exp(x - x.max(axis=1, keepdims=True))
        return x / x.sum(axis=1, keepdims=True)

    def learn(self, images, labels):
        """Gradients of the mean cross entropy; returns it."""
        probabilities = self.probabilities(images)
        rows = numpy.arange(len(labels))
        gradient = probabilities.copy()
        gradient[rows, labels] -= 1
        gradient /= len(labels)
        for layer in reversed(self.layers):
            gradient = layer.backward(gradient)
        return float(-numpy.log(probabilities[rows, labels] + 1e-12).mean())


# ---- training ----------------------------------------------------------------------------------


def split():
    """Training images and labels, then the held-out ones."""
    digits = sklearn.datasets.load_digits()
    order = numpy.random.default_rng(SEED).permutation(len(digits.target))
    images = digits.data.astype(numpy.float32)[order]
    labels = digits.target.astype(numpy.uint8)[order]
    return images[:-N_HELD_OUT], labels[:-N_HELD_OUT], images[-N_HELD_OUT:], labels[-N_HELD_OUT:]


def shift(random, images):
    """Each image moved by -1, 0 or 1 pixel in both directions; what leaves is lost."""
    padded = numpy.pad(images.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)))
    places = random.integers(0, 3, (len(images), 2))
    moved = [image[y:y + 8, x:x + 8] for image, (y, x) in zip(padded, places)]
    return numpy.stack(moved).reshape(-1, 64)


def train(images, labels, n_epochs):
    random = numpy.random.default_rng(SEED)
    network = Network(random)
    n_steps = n_epochs * (len(images) // BATCH)
    step = 0
    for epoch in range(1, n_epochs + 1):
        order = random.permutation(len(images))
        losses = []
        for start in range(0, len(order) - BATCH + 1, BATCH):
            chosen = order[start:start + BATCH]
            losses.append(network.learn(shift(random, images[chosen]), labels[chosen]))
            step += 1
            rate = LEARNING_RATE * 0.5 * (1 + numpy.cos(numpy.pi * step / n_steps))
            for parameter in network.parameters:
                parameter.step(step, numpy.float32(rate))
        print(f"epoch {epoch:2}: loss {numpy.mean(losses):.4f}", flush=True)
    return network


# ---- ONNX --------------------------------------------------------------------------------------


def export_conv(conv, scale=1.0):
    """Weights as ONNX has them: [outputs, inputs, 3, 3]."""
    weight = conv.weight.value.reshape(3, 3, conv.n_inputs, conv.n_outputs)
    return numpy.ascontiguousarray(weight.transpose(3, 2, 0, 1) * numpy.float32(scale))


def export(network):
    """The graph; ONNX keeps channels before rows and columns, the dense layer's order follows."""
    dense = network.dense.weight.value.reshape(4, 4, 64, N_CLASSES).transpose(2, 0, 1, 3)
    constants = {"shape": numpy.int64([-1, 1, 8, 8]),
                 "dense_weight": numpy.ascontiguousarray(dense.reshape(-1, N_CLASSES)),
                 "dense_bias": network.dense.bias.value}
    nodes = [helper.make_node("Reshape", ["image", "shape"], ["pixels"])]
    last = "pixels"
    for number, conv in enumerate(network.convs, 1):
        constants[f"conv{number}_weight"] = export_conv(conv, 1 / PIXEL_MAX if number == 1 else 1)
        constants[f"conv{number}_bias"] = conv.bias.value
        nodes += [
            helper.make_node("Conv", [last, f"conv{number}_weight", f"conv{number}_bias"],
                             [f"conv{number}"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", [f"conv{number}"], [f"relu{number}"])]
        last = f"relu{number}"
    nodes += [helper.make_node("MaxPool", [last], ["pool"], kernel_shape=[2, 2], strides=[2, 2]),
              helper.make_node("Flatten", ["pool"], ["flat"]),
              helper.make_node("Gemm", ["flat", "dense_weight", "dense_bias"], ["logits"]),
              helper.make_node("Softmax", ["logits"], ["probabilities"], axis=1)]
    graph = helper.make_graph(
        nodes, "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 64])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", N_CLASSES])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()])
    model = helper.make_model(graph, producer_name="examples/train_digits.py",
                              opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model, full_check=True)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--models", type=pathlib.Path, default=EXAMPLES / "models")
    parser.add_argument("--data", type=pathlib.Path, default=EXAMPLES / "data")
    options = parser.parse_args()

    images, labels, held_out_images, held_out_labels = split()
    network = train(images, labels, options.epochs)
    for name, x, y in [("training", images, labels),
                       ("held-out", held_out_images, held_out_labels)]:
        n_right = int((network.probabilities(x).argmax(axis=1) == y).sum())
        print(f"{name}: {n_right} of {len(y)} right, {100 * n_right / len(y):.2f} %")

    version = options.models / "digits" / "1"
    version.mkdir(parents=True, exist_ok=True)
    options.data.mkdir(parents=True, exist_ok=True)
    onnx.save(export(network), str(version / "model.onnx"))
    held_out_images.astype("<f4").tofile(options.data / "heldout_images.f32")
    held_out_labels.tofile(options.data / "heldout_labels.u8")
    print(f"{version / 'model.onnx'}: {(version / 'model.onnx').stat().st_size} bytes")


if __name__ == "__main__":
    main()
