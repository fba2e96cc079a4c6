"""The command `kerneltrack` and its flags."""
