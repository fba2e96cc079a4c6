"""What is asked of Flink: its REST interface, a job's counters, how it is."""
