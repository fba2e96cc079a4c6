"""Beam transforms over chunks of sensor rows: read, track, learn, score, write.

The names that `__init__.pyi` lists are imported when they are asked for.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
