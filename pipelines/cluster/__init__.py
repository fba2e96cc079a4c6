"""Flink, Kafka and Beam's servers on this machine: `kerneltrack cluster`."""
