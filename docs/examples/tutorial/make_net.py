"""Writes net.onnx, the network of the tutorial: 64 pixels, 24 hidden units, 10 digits. Needs: pip install onnx numpy"""
import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

random = numpy.random.default_rng(1)
weights = {
    "hidden.weight": random.uniform(-0.2, 0.2, (24, 64)),
    "hidden.bias": numpy.zeros(24),
    "classes.weight": random.uniform(-0.3, 0.3, (10, 24)),
    "classes.bias": numpy.zeros(10),
}
graph = helper.make_graph(
    [
        helper.make_node("Gemm", ["pixels", "hidden.weight", "hidden.bias"], ["sums"], "hidden", transB=1),
        helper.make_node("Relu", ["sums"], ["active"], "active"),
        helper.make_node("Gemm", ["active", "classes.weight", "classes.bias"], ["digits"], "classes", transB=1),
    ],
    "net",
    [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["batch", 64])],
    [helper.make_tensor_value_info("digits", TensorProto.FLOAT, ["batch", 10])],
    [numpy_helper.from_array(values.astype(numpy.float32), name) for name, values in weights.items()],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="tutorial")
model.ir_version = 8
onnx.checker.check_model(model)
onnx.save(model, "net.onnx")
