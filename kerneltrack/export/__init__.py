"""Models for other runtimes: an ONNX graph, a folder for MLflow, one for the Hugging Face Hub."""
