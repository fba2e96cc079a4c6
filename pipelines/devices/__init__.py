"""`kerneltrack devices`: which devices are off now, a line a device."""
