"""scikit-learn estimators over the trackers and learners.

They learn in one pass, row by row, in the order of the rows: `fit` is the same, bit for bit, as
`partial_fit` over the same rows however they are cut, and the same as
`kerneltrack.trackers.run_all` and `kerneltrack.learners.learn_all`. See docs/sklearn.md.
"""

from __future__ import annotations

try:
    # The oldest name that they need: it came with scikit-learn 1.6.
    from sklearn.utils.validation import validate_data as _  # noqa: F401
except ImportError as error:
    raise ImportError(
        "kerneltrack.sklearn needs scikit-learn 1.6 or newer: "
        "pip install '.[sklearn]' in a clone of kerneltrack"
    ) from error

from kerneltrack.sklearn.classifier import SubspaceClassifier
from kerneltrack.sklearn.regressor import SubspaceRegressor
from kerneltrack.sklearn.transformer import SubspaceTracker

__all__ = ["SubspaceClassifier", "SubspaceRegressor", "SubspaceTracker"]
