"""From Kafka's messages to chunks, and back."""
