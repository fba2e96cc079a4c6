"""Histograms of textons of the Brodatz textures, for POLK's Table 3.

Each image's mean is taken off and it is divided by its standard deviation, so that brightness and
contrast say nothing. Textons are the centres that k-means finds among filter responses, drawn from
all images alike; a pixel has the nearest texton, and a patch the share of each texton in it. The
filters are Leung and Malik's: 36 elongated first and second derivatives of Gaussians (three scales,
six orientations), eight Laplacians and four Gaussians.

Reading GIF takes Pillow, on which matplotlib depends.

Reference: T. Leung, J. Malik, "Representing and recognizing the visual appearance of materials
using three-dimensional textons", IJCV 43(1), 2001, section 2.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.signal import fftconvolve
from sklearn.cluster import MiniBatchKMeans

from kerneltrack.arrays import FloatArray, IntArray

TEXTONS = 256
PATCH = 24
SCALES = tuple(np.sqrt(2.0) ** k for k in range(1, 4))
ORIENTATIONS = 6
RADIUS = 24
DRAWN = 4000
"""Pixels of each image that the textons are made from."""


def filters() -> list[FloatArray]:
    """Return the 48 filters, each of mean 0 (but the Gaussians) and of absolute sum 1."""
    y, x = np.mgrid[-RADIUS : RADIUS + 1, -RADIUS : RADIUS + 1].astype(np.float64)
    bank = []
    for scale in SCALES:
        for k in range(ORIENTATIONS):
            angle = np.pi * k / ORIENTATIONS
            along, across = (
                x * np.cos(angle) + y * np.sin(angle),
                y * np.cos(angle) - x * np.sin(angle),
            )
            bell = np.exp(-0.5 * ((along / (3 * scale)) ** 2 + (across / scale) ** 2))
            bank += [across * bell, (across**2 / scale**2 - 1) * bell]
    radius2 = x**2 + y**2
    for scale in [s * t for t in (1.0, 3.0) for s in (*SCALES, np.sqrt(2.0) ** 4)]:
        bell = np.exp(-0.5 * radius2 / scale**2)
        bank.append((radius2 / scale**2 - 2) * bell)
    bank = [each - each.mean() for each in bank]
    bank += [np.exp(-0.5 * radius2 / s**2) for s in (*SCALES, np.sqrt(2.0) ** 4)]
    return [each / np.abs(each).sum() for each in bank]


def texton_histograms(folder: Path, count: int, seed: int) -> tuple[FloatArray, IntArray]:
    """Draw patches from all images of a folder.

    Args:
        folder: Where the GIF files are.
        count: How many patches.
        seed: Of which pixels and patches are drawn.

    Returns:
        The patches' texton histograms, shape (count, 256), each of sum 1; their images' numbers.
    """
    rng = np.random.default_rng(seed)
    bank = filters()
    paths = sorted(folder.glob("*.gif"), key=lambda path: int(re.sub(r"\D", "", path.stem)))
    responses = []
    for path in paths:
        image = np.asarray(Image.open(path).convert("L"), dtype=np.float64)
        image = (image - image.mean()) / image.std()
        padded = np.pad(image, RADIUS, mode="reflect")
        found = [fftconvolve(padded, each, mode="valid") for each in bank]
        responses.append(np.stack(found, axis=-1).astype(np.float32))
    drawn = [part.reshape(-1, len(bank)) for part in responses]
    drawn = [part[rng.choice(len(part), DRAWN, replace=False)] for part in drawn]
    spread = np.concatenate(drawn).std(axis=0)
    means = MiniBatchKMeans(TEXTONS, random_state=seed, batch_size=4096, n_init=3)
    means.fit(np.concatenate(drawn) / spread)
    labels = rng.integers(0, len(paths), count)
    histograms = np.empty((count, TEXTONS))
    for label, part in enumerate(responses):
        textons = means.predict((part / spread).reshape(-1, len(bank))).reshape(part.shape[:2])
        chosen = np.flatnonzero(labels == label)
        corners = rng.integers(0, np.array(textons.shape) - PATCH + 1, (len(chosen), 2))
        for n, (top, left) in zip(chosen, corners, strict=True):
            patch = textons[top : top + PATCH, left : left + PATCH]
            histograms[n] = np.bincount(patch.ravel(), minlength=TEXTONS) / PATCH**2
    return histograms, labels
