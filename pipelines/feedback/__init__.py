"""`kerneltrack feedback`: what people say of episodes goes into a file that jobs read."""
