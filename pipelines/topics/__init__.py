"""Commands on Kafka's topics: replay, read, send again, reset."""
