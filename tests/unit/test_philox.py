"""The compiled counter-based generator against NumPy's, bit for bit."""

from __future__ import annotations

import numba
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from kerneltrack.trackers.doubly.philox import WORDS, block, open_uniform, uniform

TOP = 2**64 - 1
WORD = st.integers(0, TOP)


@numba.njit
def words(key: np.ndarray, counter: np.ndarray, out: np.ndarray) -> None:
    """The words of consecutive counters, as `Philox.random_raw` draws them."""
    here = counter.copy()
    found = np.empty(WORDS, dtype=np.uint64)
    for start in range(0, out.shape[0], WORDS):
        block(key, here, found)
        for i in range(min(WORDS, out.shape[0] - start)):
            out[start + i] = found[i]
        for i in range(WORDS):
            here[i] += np.uint64(1)
            if here[i] != np.uint64(0):
                break


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
    words(of_key, of_counter, out)
    expected = np.random.Philox(key=of_key, counter=of_counter).random_raw(count)
    assert out.tolist() == expected.tolist()
    assert of_counter.tolist() == list(counter)


@numba.njit
def reals(found: np.ndarray, out: np.ndarray) -> None:
    for i in range(found.shape[0]):
        out[i, 0] = uniform(found[i])
        out[i, 1] = open_uniform(found[i])


def test_the_reals_are_numpys() -> None:
    key = np.array([7, 8], dtype=np.uint64)
    found = np.random.Philox(key=key).random_raw(1000)
    found[:2] = 0, TOP
    out = np.empty((1000, 2))
    reals(found, out)
    expected = np.random.Generator(np.random.Philox(key=key)).random(1000)
    assert out[2:, 0].tolist() == expected[2:].tolist()
    assert out[0, 0] == 0.0 and out[:, 0].max() < 1.0
    assert out[:2, 1].tolist() == [2.0**-53, 1.0 - 2.0**-53]
    assert np.abs(out[:, 1] - out[:, 0]).max() <= 2.0**-53
