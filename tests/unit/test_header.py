"""What headers say of models: the bytes of plain JSON, read back as they were written."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kerneltrack import codec
from kerneltrack.learners.linear.spec import RidgeSpec
from kerneltrack.limits import MOST_GIVEN, TIME_LIMIT
from kerneltrack.monitor.drift import DriftSpec
from kerneltrack.monitor.reference import ReferenceSpec
from kerneltrack.registry import get_learner
from kerneltrack.snapshots.header import About, AboutWriter, learner_about, packed_state, read_about
from kerneltrack.trackers.okfeb.spec import OKFEBSpec

SPECS: dict[str, Any] = {"drift": DriftSpec(), "reference": ReferenceSpec(), "measure": None}
NAMES = st.text(st.characters(codec="utf-8")) | st.just('100 % "quoted"\\n%(rows)s')
TIMES = st.none() | st.integers(-TIME_LIMIT, TIME_LIMIT)
ABOUTS = st.builds(
    About, NAMES, st.integers(0, MOST_GIVEN), TIMES, TIMES, st.integers(-MOST_GIVEN, MOST_GIVEN)
)


class Odd:
    """Settings with what a form might trip over."""

    def to_dict(self) -> dict[str, Any]:
        return {"text": "%s %% %(rows)s {}", "list": [1.5, None], "a": {"z": 1, "b": True}}


def plain(about: About, **more: Any) -> str:
    known = {name: value for name, value in about._asdict().items() if name != "before" or value}
    return json.dumps({**known, **more}, sort_keys=True)


@given(about=ABOUTS, final=st.booleans(), origin=NAMES)
def test_a_tracker_s_is_plain_json_and_read_back(about: About, final: bool, origin: str) -> None:
    settings = {name: spec.to_dict() for name, spec in SPECS.items() if spec is not None}
    settings |= dict.fromkeys(("odd", "zone", "a"), Odd().to_dict())
    text = AboutWriter(settings).tracker(about, final, origin)
    given_ = {"reference_from": origin} if origin else {}
    assert text == plain(about, final=final, **settings, **given_)
    assert read_about({"about": json.loads(text)}, "header") == about


MORE = st.fixed_dictionaries(
    {},
    optional={
        "early": st.none() | st.integers(0),
        "begun": st.just(False),
        "labels": st.lists(NAMES),
    },
)


@given(about=ABOUTS, final=st.booleans(), more=MORE)
def test_a_learner_s_is_plain_json(about: About, final: bool, more: dict[str, Any]) -> None:
    reported = {"model_id": about.model_id, "rows": about.rows, "time": about.time, "final": final}
    text = learner_about(about, final, more)
    assert text == json.dumps({**reported, **more}, sort_keys=True)


def test_the_codec_takes_it_as_text() -> None:
    about, writer = About("möwe", 3, 5, 5), AboutWriter()
    text = writer.tracker(about, final=True)
    ridge = RidgeSpec()
    state = get_learner("ridge").init(ridge, 2)
    reported = learner_about(about, True)
    data = codec.encode_learner(ridge, state, reported)
    assert data == codec.encode_learner(ridge, state, json.loads(reported))
    assert packed_state(data, "möwe")[:5] == ("möwe", codec.LEARNER, 3, 5, True)
    header = codec.tracker_header(OKFEBSpec(), text)
    assert codec.header_of(codec.TRACKER, header)["about"] == json.loads(text)
