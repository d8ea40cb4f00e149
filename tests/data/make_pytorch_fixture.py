#!/usr/bin/env python3
"""Makes the files of tests/data with PyTorch; run once, its results are stored beside it.

tiny/                    320 + 64 images of 4x4 pixels in the files and format of Fashion-MNIST
init.safetensors         a 16-24-10 MLP as PyTorch initialises it
expected_*.safetensors   its weights after 50 steps of 32 samples in file order

Needs torch, numpy and safetensors; the tests that read the files need none of them.
Usage: make_pytorch_fixture.py
"""

import gzip
import struct
from pathlib import Path

import numpy
import torch
from safetensors.torch import save_file
from torch import nn

HERE = Path(__file__).resolve().parent
STEPS = 50
BATCH = 32
SIDE = 4
HIDDEN = 24
CLASSES = 10

# name: (loss, optimizer). The flags of train_mlp that mean the same are in tests/apps/pytorch_fixture_test.cpp.
CASES = {
    "sgd_mse": ("mse", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
    "sgd_cross_entropy": (
        "cross_entropy",
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-3, nesterov=True),
    ),
    "adam_cross_entropy": ("cross_entropy", lambda p: torch.optim.Adam(p, lr=1e-3)),
    "adam_mse": ("mse", lambda p: torch.optim.Adam(p, lr=1e-2, weight_decay=1e-3)),
    "adamw_cross_entropy": (
        "cross_entropy",
        lambda p: torch.optim.AdamW(p, lr=1e-2, weight_decay=1e-2),
    ),
}


def write_idx(path, array):
    header = struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    # mtime 0: the same bytes whenever this is run.
    path.write_bytes(gzip.compress(header + array.astype(numpy.uint8).tobytes(), mtime=0))


def make_images(generator, count):
    """Noisy copies of ten fixed patterns, so that there is something to learn."""
    patterns = numpy.random.default_rng(1).integers(0, 200, (CLASSES, SIDE, SIDE))
    labels = generator.integers(0, CLASSES, count)
    images = patterns[labels] + generator.integers(0, 56, (count, SIDE, SIDE))
    return images, labels


def make_data(directory):
    directory.mkdir(exist_ok=True)
    generator = numpy.random.default_rng(2)
    for part, count in [("train", 320), ("t10k", 64)]:
        images, labels = make_images(generator, count)
        write_idx(directory / f"{part}-images-idx3-ubyte.gz", images)
        write_idx(directory / f"{part}-labels-idx1-ubyte.gz", labels)
        if part == "train":
            training = images, labels
    return training


def make_model(dtype):
    return nn.Sequential(nn.Linear(SIDE * SIDE, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES)).to(dtype)


def train(case, state, images, labels, dtype):
    loss_name, make_optimizer = CASES[case]
    model = make_model(dtype)
    model.load_state_dict(state)
    optimizer = make_optimizer(model.parameters())
    inputs = torch.tensor(images.reshape(len(images), -1), dtype=dtype) / 255
    targets = torch.tensor(labels)
    for step in range(STEPS):
        chosen = [(step * BATCH + i) % len(images) for i in range(BATCH)]
        output = model(inputs[chosen])
        if loss_name == "mse":
            one_hot = nn.functional.one_hot(targets[chosen], CLASSES).to(dtype)
            loss = nn.functional.mse_loss(output, one_hot)
        else:
            loss = nn.functional.cross_entropy(output, targets[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.state_dict(), loss.item()


def flat(state):
    return torch.cat([tensor.flatten().double() for tensor in state.values()])


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    images, labels = make_data(HERE / "tiny")
    state = make_model(torch.float32).state_dict()
    save_file(state, HERE / "init.safetensors")
    for case in CASES:
        trained, loss = train(case, state, images, labels, torch.float32)
        save_file(trained, HERE / f"expected_{case}.safetensors")
        exact, _ = train(case, state, images, labels, torch.float64)
        rounding = (flat(trained) - flat(exact)).norm() / flat(exact).norm()
        moved = (flat(trained) - flat(state)).norm() / flat(state).norm()
        print(f"{case}: last loss {loss:.4f}, moved {moved:.2f}, float32 against float64 {rounding:.1e}")


if __name__ == "__main__":
    main()
