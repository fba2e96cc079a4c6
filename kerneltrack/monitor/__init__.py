"""What a model's rows and errors say: episodes, neighbours, kernel mismatch, bounds, drift.

The names below are imported when asked for.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
