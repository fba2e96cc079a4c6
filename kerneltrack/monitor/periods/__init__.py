"""The fleet beside the device: which devices differ, period by period, and what they all share.

Rows say at once that something is odd. A day says less often what is not: held against the
device's own past days, and against the fleet's median of the same day, it leaves out what happens
to all, weather, shifts, a holiday. `sums` adds a device's rows up by period, `device` makes numbers
of them against its own past, `fleet` compares the devices and finds common causes. `running` does
what `device` does while rows still come.

Reference: the residual of one variable given the others, from the inverse of their covariance, as
in D. M. Hawkins, "Multivariate quality control based on regression-adjusted variables",
Technometrics 33, 1991. The rest is this project's (benchmarks/bench_site.py).
"""
