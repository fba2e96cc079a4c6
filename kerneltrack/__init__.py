"""Budgeted kernel subspace tracking: the numerics, free of any stream engine.

The names that `__init__.pyi` lists are imported when they are asked for.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

__version__ = "0.1.0"
