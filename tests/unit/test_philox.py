"""The counter-based generator against NumPy's, bit for bit."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from kerneltrack.native.binding import call

TOP = 2**64 - 1
WORD = st.integers(0, TOP)


@given(
    key=st.tuples(WORD, WORD),
    counter=st.tuples(WORD, WORD, WORD, WORD),
    count=st.integers(1, 21),
)
@example(key=(0, 0), counter=(0, 0, 0, 0), count=4)
@example(key=(TOP, TOP), counter=(TOP, TOP, TOP, TOP), count=9)
@example(key=(1, 2), counter=(TOP - 1, TOP, 3, 4), count=12)
@example(key=(1, 2), counter=(TOP, TOP, TOP, 4), count=5)
def test_the_words_are_numpys(
    key: tuple[int, int], counter: tuple[int, int, int, int], count: int
) -> None:
    of_key = np.array(key, dtype=np.uint64)
    of_counter = np.array(counter, dtype=np.uint64)
    out = np.empty(count, dtype=np.uint64)
    # NumPy's generator counts up before it draws.
    call("philox_words", of_key, of_counter, out)
    expected = np.random.Philox(key=of_key, counter=of_counter).random_raw(count)
    assert out.tolist() == expected.tolist()
    assert of_counter.tolist() == list(counter)


def test_the_reals_are_numpys() -> None:
    key = np.array([7, 8], dtype=np.uint64)
    found = np.random.Philox(key=key).random_raw(1000)
    found[:2] = 0, TOP
    closed, opened = np.empty(len(found)), np.empty(len(found))
    call("philox_reals", found, closed, opened)
    expected = np.random.Generator(np.random.Philox(key=key)).random(1000)
    assert closed[2:].tolist() == expected[2:].tolist()
    assert closed[0] == 0.0 and closed.max() < 1.0
    assert opened[:2].tolist() == [2.0**-53, 1.0 - 2.0**-53]
    assert np.abs(opened - closed).max() <= 2.0**-53
