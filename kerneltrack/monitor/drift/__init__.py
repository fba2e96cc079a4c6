"""Drift alerts: when the level of a model's fitting error changes regime.

Losses ℓ of consecutive rows are averaged in blocks; y = √(mean ℓ) of a block is the root mean
square distance of its φ(x) from the subspace. Each block's

    u = (y - level) / max(spread, floor · usual),  clipped to ±clip

goes to Page-Hinkley's test, where level and spread are running averages of y and of
1.2533|y - level| (the standard deviation, for normal data) over the last `memory` rows, and usual
is the square root of the model's mean loss over its last 5,000 blocks. So thresholds have no
unit, one outlier among the rows cannot raise an alert by itself, and a change that is small
beside the model's usual loss, a sensor at rest that moves a little, counts for little.

Page-Hinkley adds up u - mean(u) ∓ delta and alerts once the sum is more than `threshold` above
its lowest or below its highest value: the change began where that extreme was. After an alert
level, spread and detector begin anew; none follows within `settle` rows, in which they are learnt.

The tracker adapts to a change, sometimes within 20 rows. What it leaves is a spike of the loss or
another level. The defaults want three clear blocks or a lasting change; `block=5, clip=4, delta=1,
threshold=3` finds spikes of 10 rows at several times the false alarms. Where the losses show
neither there is no alert: a loss says nothing of a change within what the subspace holds.

Page-Hinkley is river's, number by number, without its fading (alpha = 1), which would pull a sum
far below zero up and look like a change; the compiled loop is `kerneltrack/native/drift.c`. ADWIN
was left out: its window grows with the stream.

Reference: E. S. Page, "Continuous inspection schemes", Biometrika 41, 1954; the test as in J.
Montiel et al., "River: machine learning for streaming data in Python", JMLR 22, 2021.

The names that `__init__.pyi` lists are imported when they are asked for.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
