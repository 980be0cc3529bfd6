"""The built-in templates, by name; each is imported on first use."""

from __future__ import annotations

from pegbox.hooks import hookimpl

_BY_ROWS = ("softmax", "log_softmax", "layer_norm", "rms_norm")
_SPACES = {"rows": "RowGenerator", "transposition": "TranspositionGenerator", "windows": "WindowGenerator"}


@hookimpl
def pegbox_register_templates() -> dict[str, str]:
    return {
        "matmul": "pegbox.templates.matmul:matmul",
        "matmul_strassen": "pegbox.templates.matmul_strassen:matmul_strassen",
        "batch_matmul": "pegbox.templates.batch_matmul:batch_matmul",
        "conv2d": "pegbox.templates.conv2d:conv2d",
        "conv2d_winograd": "pegbox.templates.conv2d_winograd:conv2d_winograd",
        "conv2d_im2col": "pegbox.templates.conv2d_im2col:conv2d_im2col",
        "depthwise_conv2d": "pegbox.templates.depthwise_conv2d:depthwise_conv2d",
        "separable_conv2d": "pegbox.templates.separable_conv2d:separable_conv2d",
        "group_conv2d": "pegbox.templates.group_conv2d:group_conv2d",
        "attention": "pegbox.templates.attention:attention",
        **{name: f"pegbox.templates.normalizations:{name}" for name in _BY_ROWS},
    }


@hookimpl
def pegbox_register_space_generators() -> dict[str, str]:
    return {name: f"pegbox.templates.{name}:{generator}" for name, generator in _SPACES.items()}


@hookimpl
def pegbox_register_node_tasks() -> dict[str, str]:
    names = (
        "conv2d", "depthwise_conv2d", "group_conv2d", "pixel_product", "matmul", "attention", "rows", "transposition",
    )  # fmt: skip
    return {name: f"pegbox.templates.nodes:{name}" for name in names}


@hookimpl
def pegbox_register_implementations() -> dict[str, str]:
    winograd = (f"conv2d_winograd_{m}" for m in (2, 3, 4, 6))
    names = ("conv2d_im2col", "conv2d_winograd", *winograd, "matmul_strassen", *_SPACES)
    return {name: f"pegbox.templates.implementations:{name}" for name in names}


@hookimpl
def pegbox_register_workloads() -> dict[str, str]:
    modules = {
        "products": (
            "matmul", "matmul_bias_relu", "matmul_bias_gelu", "matmul_chain", "batch_matmul", "matmul_transposed",
            "matmul_int8", "attention",
        ),
        "convolutions": (
            "conv1d", "conv2d", "conv2d_nhwc", "conv3d", "depthwise_conv2d", "conv2d_transposed", "conv2d_bn_relu",
            "conv2d_winograd", "max_pool2d", "avg_pool2d",
        ),
        "reductions": (
            "row_sum", "row_min", "row_argmax", "norm", "softmax", "layer_norm", "elementwise_chain", "sum_and_max",
        ),
    }  # fmt: skip
    return {name: f"pegbox.templates.workloads.{module}:{name}" for module, names in modules.items() for name in names}
