"""A model from a file of ONNX to one library: a small network for images, made here, compiled, tuned and written out.

python examples/tune_model.py --trials 200 --out digits.so
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import pegbox as pb


def network(size: int, channels: int) -> onnx.ModelProto:
    """Two convolutions, the mean of each channel, and a product with ten columns."""
    rng = np.random.default_rng(0)
    shapes = {"w1": (channels, 3, 3, 3), "w2": (channels, channels, 3, 3), "w3": (channels, 10), "b3": (10,)}
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape, dtype=np.float32) / 8, name)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Conv", ["image", "w1"], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("GlobalAveragePool", ["r2"], ["means"]),
        helper.make_node("Flatten", ["means"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w3", "b3"], ["digits"]),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, size, size])
    digits = helper.make_tensor_value_info("digits", TensorProto.FLOAT, [1, 10])
    graph = helper.make_graph(nodes, "digits", [image], [digits], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=32, help="height and width of the images")
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--trials", type=int, default=100, help="of all tasks together; 0 for no search")
    parser.add_argument("--out", help="write the compiled model here, as a shared library")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digits.onnx"
        onnx.save(network(options.size, options.channels), path)
        model = pb.load_model(path)
    print(model)
    image = np.random.default_rng(1).standard_normal((1, 3, options.size, options.size), dtype=np.float32)
    module = pb.compile_model(model)
    (digits,) = module(image)
    print("predicted kernels give", digits.round(2))
    if options.trials:
        result = pb.tune_model(model, trials=options.trials)
        print(result)
        module = result.module
        np.testing.assert_allclose(module(image)[0], digits, rtol=1e-3, atol=1e-5)
    if options.out:
        module.export(options.out)
        print("wrote", options.out)


if __name__ == "__main__":
    main()
