"""A live job without a cluster: one process between Kafka topics."""
