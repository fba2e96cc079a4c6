"""What all learners share: the protocol, labels, calls, the steps around learning."""
