"""Networks with random weights, as ONNX models that torch.onnx.export writes: `network("resnet18")` gives the file.

    pip install torch torchvision onnx onnxscript

Nothing is downloaded. Files are kept in `PEGBOX_NETWORKS`, or in a folder for temporary files.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

IMAGE = (1, 3, 224, 224)
Made = tuple[Any, tuple[int, ...]]
"""A torch module, and the shape of its input."""


def _vision(name: str, shape: tuple[int, ...] = IMAGE) -> Callable[[], Made]:
    def make() -> Made:
        import torchvision

        return getattr(torchvision.models, name)(weights=None), shape

    return make


def _encoder(width: int, heads: int, hidden: int, tokens: int, *, norm_first: bool) -> Callable[[], Made]:
    def make() -> Made:
        import torch

        layer = torch.nn.TransformerEncoderLayer(
            width, heads, hidden, dropout=0.0, activation="gelu", batch_first=True, norm_first=norm_first
        )
        return layer, (1, tokens, width)

    return make


def _gpt2(width: int = 768, heads: int = 12, tokens: int = 64) -> Made:
    """A block of GPT-2: masked attention, and a perceptron with the GELU of a hyperbolic tangent."""
    from torch import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))

        def forward(self, x: Any) -> Any:
            q, k, v = self.qkv(self.before(x)).view(1, tokens, 3, heads, -1).permute(2, 0, 3, 1, 4)
            seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).reshape(1, tokens, width))
            return x + self.mlp(self.between(x))

    return Block(), (1, tokens, width)


def _unet(side: int = 128, width: int = 32, depth: int = 3) -> Made:
    """A U-Net (Ronneberger et al., 2015) with batch norms, whose convolutions keep the size."""
    import torch
    from torch import nn

    def twice(given: int, made: int) -> Any:
        layers = [
            [nn.Conv2d(c, made, 3, padding=1, bias=False), nn.BatchNorm2d(made), nn.ReLU()] for c in (given, made)
        ]
        return nn.Sequential(*layers[0], *layers[1])

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            widths = [width << level for level in range(depth + 1)]
            self.down = nn.ModuleList([twice(given, made) for given, made in zip([3, *widths], widths, strict=False)])
            self.up = nn.ModuleList([nn.ConvTranspose2d(2 * each, each, 2, 2) for each in widths[:-1]])
            self.merge = nn.ModuleList([twice(2 * each, each) for each in widths[:-1]])
            self.last = nn.Conv2d(width, 2, 1)

        def forward(self, x: Any) -> Any:
            kept = []
            for level, block in enumerate(self.down):
                x = block(nn.functional.max_pool2d(x, 2) if level else x)
                kept.append(x)
            for level in reversed(range(depth)):
                x = self.merge[level](torch.cat([kept[level], self.up[level](x)], 1))
            return self.last(x)

    return UNet(), (1, 3, side, side)


def _recurrent(kind: str, batch: int) -> Callable[[], Made]:
    """Make two recurrent layers of 512 units over 64 steps, and a classifier of each step."""

    def make() -> Made:
        from torch import nn

        class Tagger(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layers = getattr(nn, kind)(256, 512, num_layers=2, batch_first=True)
                self.head = nn.Linear(512, 1000)

            def forward(self, x: Any) -> Any:
                return self.head(self.layers(x)[0])

        return Tagger(), (batch, 64, 256)

    return make


def _dcgan(width: int = 64, channels: int = 100) -> Made:
    """Make the generator of DCGAN (Radford et al., 2016) for images of 64²."""
    from torch import nn

    widths = [width << level for level in (3, 2, 1, 0)]
    layers = [nn.ConvTranspose2d(channels, widths[0], 4)]
    layers += [nn.ConvTranspose2d(given, made, 4, 2, 1) for given, made in zip(widths, [*widths[1:], 3], strict=True)]
    after = [[nn.BatchNorm2d(made), nn.ReLU()] for made in widths] + [[nn.Tanh()]]
    return nn.Sequential(*(each for layer, rest in zip(layers, after, strict=True) for each in (layer, *rest))), (
        1, channels, 1, 1,
    )  # fmt: skip


def _sound_features(width: int = 512, samples: int = 16000) -> Made:
    """Make the convolutions of wav2vec 2.0 (Baevski et al., 2020) over a second of sound."""
    from torch import nn

    steps = [(10, 5), *[(3, 2)] * 4, *[(2, 2)] * 2]
    layers: list[nn.Module] = []
    for number, (extent, stride) in enumerate(steps):
        layers += [nn.Conv1d(width if number else 1, width, extent, stride, bias=False)]
        layers += [*([] if number else [nn.GroupNorm(width, width)]), nn.GELU()]
    return nn.Sequential(*layers), (1, 1, samples)


def _fourier_layer(width: int = 768, tokens: int = 64) -> Made:
    """Make a layer of FNet (Lee-Thorp et al., 2022): Fourier transforms in the place of attention."""
    import torch
    from torch import nn

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.between, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))

        def forward(self, x: Any) -> Any:
            x = self.between(x + torch.fft.fft2(x, dim=(1, 2)).real)
            return self.after(x + self.mlp(x))

    return Layer(), (1, tokens, width)


def _mixed_feed_forward(width: int = 64, side: int = 56) -> Made:
    """Make a feed-forward layer of SegFormer (Xie et al., 2021): a depthwise convolution between two products."""
    from torch import nn

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.mix = nn.Conv2d(4 * width, 4 * width, 3, padding=1, groups=4 * width)

        def forward(self, x: Any) -> Any:
            image = self.up(x).transpose(1, 2).view(1, 4 * width, side, side)
            return self.down(nn.functional.gelu(self.mix(image)).flatten(2).transpose(1, 2))

    return Layer(), (1, side * side, width)


NETWORKS: dict[str, Callable[[], Made]] = {
    "resnet18": _vision("resnet18"),
    "resnet50": _vision("resnet50"),
    "mobilenet_v2": _vision("mobilenet_v2"),
    "efficientnet_b0": _vision("efficientnet_b0"),
    "bert_layer": _encoder(768, 12, 3072, 128, norm_first=False),
    "gpt2_block": _gpt2,
    "vit_s_layer": _encoder(384, 6, 1536, 197, norm_first=True),
    "vit_b_layer": _encoder(768, 12, 3072, 197, norm_first=True),
    "deit_ti_layer": _encoder(192, 3, 768, 197, norm_first=True),
    "bert_layer_384": _encoder(768, 12, 3072, 384, norm_first=False),
    "gpt2_block_256": partial(_gpt2, tokens=256),
    "unet": _unet,
    "squeezenet": _vision("squeezenet1_1"),
    "mobilenet_v3": _vision("mobilenet_v3_large"),
    "shufflenet": _vision("shufflenet_v2_x1_0"),
    "densenet121": _vision("densenet121"),
    "swin_t": _vision("swin_t"),
    "lstm": _recurrent("LSTM", 1),
    "gru": _recurrent("GRU", 4),
    "regnet_y_400mf": _vision("regnet_y_400mf"),
    "resnext50": _vision("resnext50_32x4d"),
    "dcgan": _dcgan,
    "alexnet": _vision("alexnet"),
    "vgg11": _vision("vgg11"),
    "googlenet": _vision("googlenet"),
    "inception_v3": _vision("inception_v3", (1, 3, 299, 299)),
    "mnasnet": _vision("mnasnet1_0"),
    "regnet_x_400mf": _vision("regnet_x_400mf"),
    "wide_resnet50": _vision("wide_resnet50_2"),
    "efficientnet_v2_s": _vision("efficientnet_v2_s"),
    "convnext_tiny": _vision("convnext_tiny"),
    "maxvit_t": _vision("maxvit_t"),
    "sound_features": _sound_features,
    "fourier_layer": _fourier_layer,
    "mixed_feed_forward": _mixed_feed_forward,
}


def torch_network(name: str) -> Made:
    """Make a network with weights that are the same each time, in inference mode."""
    import torch

    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)  # the exporter cannot write it
    module, shape = NETWORKS[name]()
    for each in module.modules():  # batch norms that do something
        if isinstance(each, torch.nn.BatchNorm2d):
            each.running_mean.uniform_(-0.5, 0.5)
            each.running_var.uniform_(0.5, 2.0)
    return module.eval(), shape


def network(name: str) -> Path:
    """Return the file of a network, which is written if it is not there."""
    import torch

    folder = Path(os.environ.get("PEGBOX_NETWORKS", Path(tempfile.gettempdir()) / "pegbox-networks"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.onnx"
    if not path.exists():
        module, shape = torch_network(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given: dict[str, Any] = {"input_names": ["x"], "output_names": ["y"], "verbose": False}
            made = torch.onnx.export(module, (torch.randn(*shape),), dynamo=True, **given)
        beside = path.with_suffix(".part")
        made.save(str(beside), external_data=False)
        beside.rename(path)
    return path
