"""The live job on Flink: submitted, watched, stopped."""
