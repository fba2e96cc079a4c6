"""All that touches what Beam does not promise to keep: one door to its inside.

A worker is prepared by `install.install`, once a process; live jobs' workers by importing
`live_worker` before they speak to the runner. What is used while a pipeline is built (`step_ids`,
`timer_names`), to name the in-process runner (`runners`) and to start a worker (`boot`) is beside
it. Each module says what it changes and what that buys, with which versions of Beam it was checked,
and which change of Beam's would make it needless. ARCHITECTURE.md has them in a table.
"""
