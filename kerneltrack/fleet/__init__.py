"""Many models' rows through all that works on them, without Beam, input or output.

A model is a tracker's state and what works along with it (`model`); rows in order go in, what they
say comes out (`run`). Whoever has rows is a client: a partition of files, a bundle of a stream,
`score`, `kt.Fleet`.
"""
