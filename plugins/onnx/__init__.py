"""ONNX models: a reader, and a backend for the ONNX project's own tests."""
