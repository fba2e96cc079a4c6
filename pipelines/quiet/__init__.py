"""`kerneltrack quiet`: a quiet time goes into a file that jobs read, or to a job that runs."""
