"""`--only-while`: a condition is read by forms that are known, and evaluated on blocks of rows."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.errors import ConfigError
from kerneltrack.monitor.condition import MOST_CHARACTERS, Condition
from kerneltrack.monitor.condition_values import rows_that_meet
from kerneltrack.number_texts import NAMES, name_code
from tests.parts import examples

RUN = name_code("run")


def met(text: str, *columns: list[float]) -> list[bool]:
    """Evaluate a condition on columns a, b, c, ... of numbers."""
    names = [chr(ord("a") + place) for place in range(len(columns))]
    placed = Condition(Condition(text).placed(names, alone=_texts(text)))
    found: list[bool] = rows_that_meet(placed, np.array(columns, dtype=np.float64).T).tolist()
    return found


def _texts(text: str) -> list[str]:
    return [name for name, texts in Condition(text).columns.items() if texts]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a > 1", [False, True, True]),
        ("a >= 1 and not b", [True, False, False]),
        ("a == 2 or b == 0", [True, True, False]),
        ("not (a == 2 or b == 0)", [False, False, True]),
        ("1 < a <= 2", [False, True, False]),
        ("a in (1, 3)", [True, False, True]),
        ("a not in [1, b + 2]", [False, True, False]),
        ("(a + b) / 2 - 1 * a < 0.1 - a", [False, False, False]),
        ("-a < -1", [False, True, True]),
        ("b", [False, True, True]),
        ("b == True", [False, True, True]),
        ("a\n  > 1\tand b", [False, True, True]),
    ],
)
def test_a_condition_holds_where_it_says(text: str, wanted: list[bool]) -> None:
    assert met(text, [1, 2, 3], [0, 1, 1]) == wanted


def test_texts_are_compared_with_names() -> None:
    states = [RUN, name_code("off"), name_code("3"), math.nan]
    assert met("a == 'run'", states) == [True, False, False, False]
    assert met("a != 'run'", states) == [False, True, True, False]
    assert met("'run' == a", states) == [True, False, False, False]
    assert met('a in (" run ", "3")', states) == [True, False, True, False]
    assert met("a not in ('run', '3')", states) == [False, True, False, False]


@pytest.mark.parametrize("text", ["a > 1", "not a > 1", "a > 1 or b > 0", "b or a not in (3, 4)"])
def test_a_row_that_lacks_a_column_does_not_meet_it(text: str) -> None:
    assert not met(text, [math.nan], [1])[0]


def test_a_number_that_is_not_finite_is_missing() -> None:
    assert met("not a / b > 1", [1, 0, 1], [0, 0, 2]) == [False, False, True]
    assert met("a * a > 1 or b > 0", [1e200], [1]) == [False]


def test_columns_of_any_name_stand_in_backquotes() -> None:
    condition = Condition("`out side` > 3 and `in` < 2 and größe == 1 and s == '`x`'")
    assert list(condition.columns) == ["out side", "in", "größe", "s"]
    names = ["s", "größe", "in", "out side"]
    placed = condition.placed(names, alone=["s"])
    assert placed == "channel[3] > 3 and channel[2] < 2 and channel[1] == 1 and column[0] == '`x`'"
    assert Condition(placed).places == (3, 2, 1, 0)
    assert Condition(placed).alone == (0,)
    assert Condition(placed).named(names) == condition.text
    assert Condition(placed).placed(names) == placed


def test_texts_of_channels_are_read_as_the_channels_are() -> None:
    condition = Condition("valve == 'open' and state == 'run' and on != 'FALSE' and n in ('7',)")
    words = {"valve": ("open", "shut"), "state": NAMES}
    placed = condition.placed(["valve", "state", "on", "n"], words)
    assert placed == (
        "channel[0] == 0.0 and channel[1] == 'run' and channel[2] != 0.0 and channel[3] in (7.0,)"
    )
    with pytest.raises(ConfigError, match="at character 10: valve is 'open' or 'shut'"):
        Condition("valve == 'closed'").placed(["valve"], words)
    with pytest.raises(ConfigError, match="at character 6: n holds numbers, and no texts"):
        Condition("n == 'seven'").placed(["n"])


@pytest.mark.parametrize(
    ("text", "place", "why"),
    [
        ("rpm >", 6, "invalid syntax"),
        ("rpm > 3 3", 9, "invalid syntax"),
        ("abs(rpm) > 3", 1, "there are no functions, such as abs"),
        ("__import__('os').system('x') == 0", 1, "there are no functions"),
        ("rpm + 3", 1, "a comparison stands here"),
        ("rpm ** 2 > 3", 1, "only comparisons"),
        ("rpm.real > 3", 1, "only comparisons"),
        ("rows[0] > 3", 1, "only comparisons"),
        ("channel[-1] > 3", 1, "only comparisons"),
        ("channel[True] > 3", 1, "only comparisons"),
        ("rpm if on else 1", 1, "only comparisons"),
        ("(x := 3) > 2", 2, "only comparisons"),
        ("rpm > 'high'", 7, "texts are compared by"),
        ("'a' == 'a'", 1, "a text is compared with a column"),
        ("state == 'run' or state == 3", 19, "those are '3', not 3"),
        ("rpm in 3", 8, "after in stands a list"),
        ("rpm in ()", 8, "after in stands a list"),
        ("state in ('run', 3)", 18, "a list holds texts only"),
        ("rpm is None", 8, "it is compared by"),
        ("rpm == None", 8, "a number or a column stands here"),
        ("(rpm > 3) + 1 > 1", 2, "a number stands here"),
        ("rpm > 1e999", 7, "a finite number"),
        (f"rpm > {'9' * 400}", 7, "a finite number"),
        ("rpm > 3 and `x", 13, "a name stands between two backquotes"),
        ("1 < 2", 1, "it names no column"),
        ("not " * 50 + "rpm", 165, "nested too deep"),
        ("größe > 3 and abs(rpm) > 1", 15, "there are no functions"),
    ],
)
def test_what_is_no_condition_is_refused_with_its_place(text: str, place: int, why: str) -> None:
    with pytest.raises(ConfigError) as error:
        Condition(text)
    assert f"must be right at character {place}: " in str(error.value)
    assert why in str(error.value)


@pytest.mark.parametrize("text", ["", " ", "a" * (MOST_CHARACTERS + 1), 3, None])
def test_what_is_no_text_is_refused(text: Any) -> None:
    with pytest.raises(ConfigError, match="a condition of 1 to 2,000 characters"):
        Condition(text)


def test_an_unknown_column_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"at character 11: .*'rmp' \(did you mean 'rpm'\?\)"):
        Condition("on == 1 + rmp").placed(["on", "rpm"])
    with pytest.raises(ConfigError, match="only on, rpm; texts stand in quotes"):
        Condition("on == running").placed(["on", "rpm"])
    with pytest.raises(ConfigError, match="2 is no place of a channel, 0 to 1"):
        Condition("channel[2] > 1").check_width(2)
    with pytest.raises(ConfigError, match="rpm is no place"):
        Condition("rpm > 1").check_width(2)


class Drawn(NamedTuple):
    """A text, and what it says of a row by Python's own numbers."""

    text: str
    value: Callable[[tuple[float, ...]], Any]


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ArithmeticError
    return value


def _number(left: Drawn, sign: str, right: Drawn) -> Drawn:
    do = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}[sign]
    return Drawn(
        f"({left.text} {sign} {right.text})",
        lambda row: _finite(do(left.value(row), right.value(row))),
    )


def _comparison(left: Drawn, sign: str, right: Drawn) -> Drawn:
    do = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne}[sign]
    return Drawn(
        f"{left.text} {sign} {right.text}", lambda row: do(left.value(row), right.value(row))
    )


def _one_of(own: Drawn, first: Drawn, second: Drawn) -> Drawn:
    return Drawn(
        f"{own.text} in ({first.text}, {second.text})",
        lambda row: own.value(row) in (first.value(row), second.value(row)),
    )


def _joined(left: Drawn, word: str, right: Drawn) -> Drawn:
    join = all if word == "and" else any
    # Both sides are looked at, as in blocks.
    return Drawn(
        f"({left.text} {word} {right.text})", lambda row: join([left.value(row), right.value(row)])
    )


def _column(at: int) -> Drawn:
    return Drawn("abc"[at], lambda row: _finite(row[at]))


def _constant(text: str) -> Drawn:
    return Drawn(text, lambda row: float(text))


PLAIN = [*map(_column, range(3)), *map(_constant, ("0", "1", "2.5", "-3"))]
NUMBER = st.recursive(
    st.sampled_from(PLAIN), lambda own: st.builds(_number, own, st.sampled_from("+-*/"), own)
)
COMPARISON = st.one_of(
    st.builds(_comparison, NUMBER, st.sampled_from(["<", "<=", "==", "!="]), NUMBER),
    st.builds(_one_of, NUMBER, NUMBER, NUMBER),
)
CONDITION = st.recursive(
    COMPARISON,
    lambda own: st.one_of(
        st.builds(lambda each: Drawn(f"not ({each.text})", lambda row: not each.value(row)), own),
        st.builds(_joined, own, st.sampled_from(["and", "or"]), own),
    ),
    max_leaves=6,
)
VALUE = st.sampled_from([0.0, 1.0, -3.0, 2.5, 1e308, math.nan])


@settings(max_examples=examples(300))
@given(drawn=CONDITION, rows=st.lists(st.tuples(VALUE, VALUE, VALUE), min_size=1, max_size=5))
def test_it_says_what_python_says_of_each_row(drawn: Drawn, rows: list[tuple[float, ...]]) -> None:
    placed = Condition(Condition(f"({drawn.text}) and a == a").placed(["a", "b", "c"]))
    matrix = np.array(rows)
    found = rows_that_meet(placed, matrix).tolist()
    assert found == [
        bool(rows_that_meet(placed, matrix[at : at + 1])[0]) for at in range(len(rows))
    ]
    for row, holds in zip(rows, found, strict=True):
        try:
            assert holds == (not math.isnan(row[0]) and drawn.value(row))
        except ArithmeticError:
            assert not holds
