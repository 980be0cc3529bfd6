"""Convolutions by NumPy, to compare kernels with."""

from __future__ import annotations

from typing import Any

import numpy as np

ORDER = {"OIHW": (0, 1, 2, 3), "OHWI": (0, 3, 1, 2), "HWIO": (3, 2, 0, 1)}


def pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)


def convolved(x: Any, w: Any, stride: Any, padding: Any, dilation: Any, layout: str, weights: str) -> Any:
    """Return the convolution in float64, filter position by filter position."""
    if layout == "NHWC":
        x = x.transpose(0, 3, 1, 2)
    w = w.transpose(ORDER[weights]).astype(np.float64)
    (sy, sx), (dy, dx) = map(pair, (stride, dilation))
    top, left, bottom, right = padding if np.size(padding) == 4 else pair(padding) * 2
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right))).astype(np.float64)
    oh, ow = ((size - (k - 1) * d - 1) // s + 1 for size, k, d, s in
              zip(x.shape[2:], w.shape[2:], (dy, dx), (sy, sx), strict=True))  # fmt: skip
    out = np.zeros((x.shape[0], w.shape[0], oh, ow))
    for a in range(w.shape[2]):
        for b in range(w.shape[3]):
            window = x[:, :, a * dy :, b * dx :][:, :, : (oh - 1) * sy + 1 : sy, : (ow - 1) * sx + 1 : sx]
            out += np.einsum("nchw,oc->nohw", window, w[:, :, a, b])
    return out if layout == "NCHW" else out.transpose(0, 2, 3, 1)
