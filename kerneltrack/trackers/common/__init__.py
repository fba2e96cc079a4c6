"""What all trackers share: the protocol, calls, the first rows, the steps around learning."""
