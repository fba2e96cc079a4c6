"""Notifications: what is sent, to whom, in which order and how often."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.errors import ConfigError, DataError
from pipelines.cli.main import main
from pipelines.notify.deliver import LONGEST_PAUSE, Delivery
from pipelines.notify.mail import Mail
from pipelines.notify.notices import Event, Notice, iso_of, notice_of, notice_of_device
from pipelines.notify.outbox import Outbox
from pipelines.notify.post import DeliveryError, post
from pipelines.notify.receivers import Alertmanager, Webhook
from pipelines.notify.sources import with_incidents
from pipelines.notify.templates import PRESETS, filled, read_template
from pipelines.report.data.incidents import Incident
from tests.parts import examples
from tests.receivers import HttpServer, mail_server

START = 1_772_395_140_000_000_000
SHARES = [
    {"channel": "heat", "share": 0.97, "deviation": 6.08},
    {"channel": "flow", "share": 0.03, "deviation": None},
]


def notice(
    device: str = "pump-5", episode: int | None = 1, state: str = "open", kind: str = "shift"
) -> Notice:
    later = START + (60 if state == "open" else 3600) * 10**9
    kind = "silent" if episode is None else kind
    return Notice(device, episode, kind, state, 9, START, later, 12.5, SHARES)


class Kept:
    """A receiver that keeps what it is sent; `errors` come first."""

    name, again = "kept", None

    def __init__(self, most: int = 1, again: float | None = None) -> None:
        self.most, self.again = most, again
        self.events: list[Event] = []
        self.errors: list[DeliveryError] = []

    def send(self, events: Sequence[Event]) -> None:
        assert len(events) <= self.most
        if self.errors:
            raise self.errors.pop(0)
        self.events += events


class Sending:
    """An outbox, a receiver and a clock."""

    def __init__(self, path: Path, receiver: Any, per_minute: int = 1000) -> None:
        self.outbox = Outbox(str(path), "folder x", [receiver.name])
        self.now, self.lines, self.receiver = 100.0, list[str](), receiver
        self.delivery = Delivery(
            receiver, self.outbox, per_minute, self.lines.append, lambda: self.now
        )


@settings(max_examples=examples(15))
@given(
    lines=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), max_size=25),
    fails=st.lists(st.booleans(), max_size=25),
    seed=st.integers(0, 2**31),
)
def test_each_beginning_and_end_is_sent_once_and_in_order(
    lines: list[tuple[str, int]],
    fails: list[bool],
    seed: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """However often lines come again, deliveries fail and the process is killed."""
    rng, path = random.Random(seed), tmp_path_factory.mktemp("outbox") / "state"
    receiver, counts = Kept(), dict.fromkeys("abc", 0)
    sending = Sending(path, receiver)
    receiver.errors = [DeliveryError("no") for fail in fails if fail]
    for device, more in lines:
        counts[device] += 1
        number = counts[device]
        sending.outbox.read([notice(device, number)], {0: number})
        if rng.random() < 0.3:
            sending.outbox.read([notice(device, number)], {})
        if rng.random() < 0.7:
            sending.delivery.go_on()
            sending.now += rng.choice([0.0, 400.0])
        if more:
            sending.outbox.read([notice(device, number, "closed")], {})
        if rng.random() < 0.3:
            sending.outbox.close()
            now, sending = sending.now, Sending(path, receiver)
            sending.now = now + 1
    for _ in range(len(fails) + 1):
        sending.now += 400
        sending.delivery.go_on()
    assert sending.delivery.is_done
    found = [(event.opened.key, event.status) for event in receiver.events]
    assert len(set(found)) == len(found)
    over = {key for key, status in found if status == "resolved"}
    assert all(found.index((key, "firing")) < found.index((key, "resolved")) for key in over)
    # What goes on was sent; what is over was resolved, or never heard of.
    wanted = {
        (f"{device} episode {counts[device]}", "firing") for device in "abc" if counts[device]
    }
    last = {device: more for device, more in lines}
    for device, more in last.items():
        key = f"{device} episode {counts[device]}"
        assert ((key, "firing") in found or bool(more)) and (key in over) == (
            bool(more) and (key, "firing") in found
        )
    assert {key for key, _ in found} >= {key for key, _ in wanted if not last[key[0]]}
    sending.outbox.close()


def test_an_episode_that_ends_before_it_was_sent_is_not_sent(tmp_path: Path) -> None:
    sending = Sending(tmp_path / "state", Kept())
    sending.outbox.read([notice(), notice(state="closed")], {0: 2})
    sending.delivery.go_on()
    assert sending.receiver.events == []
    assert sending.outbox.offsets() == {0: 2}


@pytest.mark.parametrize("ends", ["before the next process", "after it has sent again"])
def test_a_process_killed_while_it_sends_leaves_no_alert_without_an_end(
    tmp_path: Path, ends: str
) -> None:
    class Kill(BaseException):
        """The end of the process, after the receiver has the event."""

    class Killing(Kept):
        def send(self, events: Sequence[Event]) -> None:
            super().send(events)
            raise Kill

    killed = Sending(tmp_path / "state", Killing())
    killed.outbox.read([notice()], {})
    with pytest.raises(Kill):
        killed.delivery.go_on()
    killed.outbox.close()
    sending = Sending(tmp_path / "state", Kept())
    if ends == "after it has sent again":
        sending.delivery.go_on()
    sending.outbox.read([notice(state="closed")], {})
    sending.delivery.go_on()
    assert sending.delivery.is_done
    assert [event.status for event in killed.receiver.events] == ["firing"]
    again = ["firing"] if ends == "after it has sent again" else []
    assert [event.status for event in sending.receiver.events] == [*again, "resolved"]


def test_what_a_folder_has_no_more_is_over(tmp_path: Path) -> None:
    sending = Sending(tmp_path / "state", Kept())
    silent = notice("pump-6", None)
    sending.outbox.replace([notice(), silent])
    sending.delivery.go_on()
    sending.outbox.replace([notice()])
    sending.delivery.go_on()
    found = [(event.opened.device, event.status) for event in sending.receiver.events]
    assert found == [("pump-5", "firing"), ("pump-6", "firing"), ("pump-6", "resolved")]
    assert sending.receiver.events[-1].until is None


def test_a_receiver_that_fails_is_tried_later_and_later(tmp_path: Path) -> None:
    sending = Sending(tmp_path / "state", Kept())
    sending.outbox.read([notice()], {})
    sending.receiver.errors = [DeliveryError("down") for _ in range(12)]
    waits = []
    while not sending.delivery.is_done:
        sending.delivery.go_on()
        waits.append(sending.delivery.due - sending.now)
        sending.now = max(sending.now, sending.delivery.due)
    assert waits[:10] == [1, 2, 4, 8, 16, 32, 64, 128, 256, LONGEST_PAUSE]
    assert sending.lines == ["down; again in 1 s", "kept takes notifications again"]
    sending.outbox.read([notice(episode=2)], {})
    sending.receiver.errors = [DeliveryError("slow down", after=17.0)]
    sending.delivery.go_on()
    assert sending.delivery.due - sending.now == 17


def test_what_is_refused_for_what_it_holds_is_left_out(tmp_path: Path) -> None:
    sending = Sending(tmp_path / "state", Kept())
    sending.outbox.read([notice(episode=1), notice(episode=2)], {})
    sending.receiver.errors = [DeliveryError("too long", final=True)]
    sending.delivery.go_on()
    assert [event.opened.episode for event in sending.receiver.events] == [2]
    assert (sending.delivery.refused, sending.lines) == (1, ["left out: too long"])


def test_no_more_is_sent_in_a_minute_than_allowed(tmp_path: Path) -> None:
    sending = Sending(tmp_path / "state", Kept(), per_minute=3)
    sending.outbox.read([notice(episode=number) for number in range(1, 9)], {})
    sent = []
    for _ in range(3):
        sending.delivery.go_on()
        sent.append(len(sending.receiver.events))
        sending.now = sending.delivery.due
    assert sent == [3, 6, 8]


def test_alertmanager_hears_again_of_what_goes_on(tmp_path: Path) -> None:
    sending = Sending(tmp_path / "state", Kept(most=500, again=60.0))
    sending.outbox.read([notice(), notice("pump-6")], {})
    for _ in range(4):
        sending.delivery.go_on()
        sending.now += 31
    assert [event.opened.device for event in sending.receiver.events] == ["pump-5", "pump-6"] * 2


def test_a_state_file_is_of_one_source_and_one_process(tmp_path: Path) -> None:
    path = str(tmp_path / "state")
    outbox = Outbox(path, "topic a", ["mail"])
    with pytest.raises(ConfigError, match="no other process uses: another notify does"):
        Outbox(path, "topic a", ["mail"])
    outbox.close()
    with pytest.raises(ConfigError, match="this one is of topic a"):
        Outbox(path, "topic b", ["mail"])
    (tmp_path / "other").write_bytes(b"something else, of some length" * 40)
    with pytest.raises(DataError, match="cannot be used"):
        Outbox(str(tmp_path / "other"), "topic a", ["mail"])
    with pytest.raises(ConfigError, match="a folder that exists"):
        Outbox(str(tmp_path / "none" / "state"), "topic a", ["mail"])


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("closed", "pump-5 is well again (stuck since 2026-03-01 19:59:00 UTC)"),
        (
            "steady",
            "pump-5 has changed to stay (stuck since 2026-03-01 19:59:00 UTC): it is not as it was",
        ),
        ("accepted", "pump-5 has a new normal (stuck since 2026-03-01 19:59:00 UTC)"),
    ],
)
def test_an_end_says_what_became_of_the_device(state: str, text: str) -> None:
    """The kind is the one that shows at the end: a spike may turn out to be a stuck sensor."""
    over = Event(notice(kind="spike"), notice(state=state, kind="stuck"), over=True)
    assert over.summary == text


def test_a_kind_is_said_once_it_is_settled(server: HttpServer) -> None:
    begun = Event(notice(kind="spike"))
    ended = Event(notice(kind="spike"), notice(state="closed", kind="shift"), over=True)
    assert begun.summary == "pump-5 is off since 2026-03-01 19:59:00 UTC: heat 97 % (+6.1)"
    assert "kind" not in filled(PRESETS["plain"], begun, "")
    plain = filled(PRESETS["plain"], ended, "")
    assert plain["kind"] == "shift"
    assert plain["summary"] == "pump-5 is well again (shift since 2026-03-01 19:59:00 UTC)"
    short = Event(notice(kind="spike"), notice(state="closed", kind="spike"), over=True)
    assert short.kind == "spike"
    # By its labels an alert is known: they are those of its beginning.
    receiver = Alertmanager(server.url, {}, {})
    receiver.send([begun])
    receiver.send([ended])
    first, last = (body[0]["labels"] for body in server.bodies)
    assert first == last
    assert "kind" not in first


def test_forms_are_what_services_take() -> None:
    began = Event(notice())
    over = Event(notice(), notice(state="closed"), over=True)
    text = "pump-5 is off since 2026-03-01 19:59:00 UTC: shift in heat 97 % (+6.1)"
    assert filled(PRESETS["slack"], began, "") == {"text": text}
    card = filled(PRESETS["teams"], began, "")["attachments"][0]["content"]
    assert (card["body"][0]["text"], card["$schema"][:5]) == (text, "http:")
    assert filled(PRESETS["pagerduty"], over, "key") == {
        "routing_key": "key",
        "event_action": "resolve",
        "dedup_key": "pump-5 episode 1",
        "payload": {
            "summary": "pump-5 is well again (shift since 2026-03-01 19:59:00 UTC)",
            "source": "pump-5",
            "severity": "error",
            "timestamp": "2026-03-01T19:59:00.000Z",
            "component": "heat 97 % (+6.1)",
            "class": "shift",
        },
    }
    plain = filled(PRESETS["plain"], Event(notice(episode=None)), "")
    assert (plain["status"], plain["severity"], plain["kind"]) == ("firing", 12.5, "silent")
    # What there is not is left out.
    assert not {"episode", "until"} & plain.keys()
    assert plain["summary"] == "pump-5 has sent nothing since 2026-03-01 19:59:00 UTC"


def test_no_name_of_a_device_breaks_what_is_sent(server: HttpServer) -> None:
    name = 'a"\\\n${device} $$ \u202e\x1b'
    event = Event(notice(name))
    Webhook(server.url, {"text": "<${device}>", "is": "${device}"}, {}).send([event])
    assert server.bodies == [{"text": f"<{name}>", "is": name}]
    with mail_server() as mail:
        host, _, port = mail.place.partition(":")
        Mail(host, int(port), "none", "us@here", ("you@there",)).send([event])
    (message,) = mail.messages
    assert "${device}" in message["Subject"]
    assert message["From"] == "us@here" and message["To"] == "you@there"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{"a": "${nobody}"}', "nobody"),
        ('{"a": "costs $5"}', r"\$\$ for a dollar sign"),
        ("{", "cannot be read as JSON"),
    ],
)
def test_a_template_that_is_wrong_is_refused(text: str, error: str, tmp_path: Path) -> None:
    path = tmp_path / "template.json"
    path.write_text(text)
    with pytest.raises((ConfigError, DataError), match=error):
        read_template("--webhook-template", str(path))


def test_answers_say_what_is_done(server: HttpServer) -> None:
    server.answers = [(503, {"Retry-After": "7"}), (400, {}), (302, {"Location": "/other"})]
    found = []
    for _ in server.answers[:]:
        with pytest.raises(DeliveryError) as error:
            post("It", server.url, {})
        found.append((str(error.value), error.value.after, error.value.final))
    assert found == [
        ("It answers 503 Service Unavailable: not now", 7.0, False),
        ("It answers 400 Bad Request: not now", None, True),
        ("It answers 302 Found: not now", None, False),
    ]
    assert len(server.requests) == 3
    server.close()
    with pytest.raises(DeliveryError, match=r"It does not answer: .*refused"):
        post("It", server.url, {})


def test_an_alert_goes_on_until_its_end_is_sent(server: HttpServer) -> None:
    events = [Event(notice()), Event(notice(), notice(state="closed"), over=True)]
    Alertmanager(server.url, {}, {"site": "north"}).send(events)
    ((path, _, (began, over)),) = server.requests
    assert path == "/api/v2/alerts"
    assert (
        began["labels"]
        == over["labels"]
        == {
            "alertname": "DeviceOff",
            "device": "pump-5",
            "kind": "shift",
            "episode": "episode 1",
            "site": "north",
        }
    )
    assert began["startsAt"] == over["startsAt"] == iso_of(START)
    assert over["endsAt"] == iso_of(START + 3600 * 10**9)
    assert began["endsAt"] > "2027"


def line(**changed: Any) -> dict[str, Any]:
    given = {"model_id": "m", "episode": 1, "state": "open", "kind": "shift", "severity": 3.5}
    given |= {"start_index": 7, "start": "2026-03-01T19:59:00.000000000Z", "time": None}
    return {**given, "shares": [0.25, 0.75], "deviations": [None, -3.2], **changed}


def test_lines_of_topics_are_read() -> None:
    found = notice_of(line(), ["flow"], "here")
    assert found.channels[0] == {"channel": "channel 2", "share": 0.75, "deviation": -3.2}
    assert (found.start, found.key) == (START, "m episode 1")
    heat = {"channel": "heat", "share": 0.75, "deviation": None}
    assert notice_of(line(channels=[heat]), [], "here").channels == [heat]
    silent = notice_of(line(kind="silent", episode=None, severity=None), [], "here")
    assert silent.key == "m silent since 2026-03-01T19:59:00.000Z"
    with pytest.raises(DataError, match="here: has a line without columns of episodes"):
        notice_of({"model_id": "m"}, [], "here")
    with pytest.raises(DataError, match="here: has a line that is no episode"):
        notice_of(line(episode="one"), [], "here")
    with pytest.raises(DataError, match="here: has a line that is no episode"):
        notice_of(line(channels=[{"name": "heat"}]), [], "here")


def test_what_a_devices_topic_says_is_told() -> None:
    common = {"since": "2026-03-01T19:59:00Z", "since_index": 7, "channels": []}

    def told(**changed: Any) -> Notice | None:
        return notice_of_device({**line(), **common, **changed}, "here")

    assert told(state="normal", episode=None, kind=None) is None
    for state, of_episode in (("off", "open"), ("normal", "closed"), ("learning", "accepted")):
        found = told(state=state)
        assert found is not None and (found.state, found.key) == (of_episode, "m episode 1")
    changed = told(state="changed")
    assert changed is not None and changed.state == "steady"
    silent = told(state="off", kind="silent", episode=None, severity=None, start=None)
    assert silent is not None and silent.is_open
    assert silent.key == "m silent since 2026-03-01T19:59:00.000Z"


def test_what_differs_by_day_is_told() -> None:
    channels = [{"channel": "heat", "share": 1.0, "deviation": None}]
    fields = {"state": "changed", "episode": None, "kind": "by day", "channels": channels}
    known = notice_of_device(line(**fields, since="2026-03-01T00:00:00.000000000Z"), "devices")
    assert known is not None and known.is_open and known.episode is None
    assert Event(known).summary == "m differs by day since 2026-03-01 00:00:00 UTC: heat 100 %"
    again = Event(known, over=True).summary
    assert again == "m no longer differs by day (since 2026-03-01 00:00:00 UTC)"


def incident(start: int, *names: str, still: int = 1) -> Incident:
    members = tuple((name, 1) for name in names)
    return Incident(1, members, names, None, start, start, still, 1e-4)


def test_an_incident_keeps_its_beginning_and_goes_on() -> None:
    found = [notice(name, 1) for name in "abc"]
    notices, covered = with_incidents(found, [incident(START + 9, "a", "b")], ())
    first = notices[-1]
    assert (first.kind, first.start, covered) == (
        ("incident", START + 9, {"a episode 1", "b episode 1"})
    )
    # Somebody joins who went off before: it is the same one.
    notices, covered = with_incidents(found, [incident(START, "c", "a", "b")], [first])
    assert (notices[-1].key, notices[-1].devices) == (first.key, ["c", "a", "b"])
    assert covered == {each.key for each in found}
    # Chance would explain it by now: it goes on while one of its devices is off.
    notices, covered = with_incidents(found, [], [first])
    assert (notices[-1], covered) == (first, {"a episode 1", "b episode 1"})
    ended = [notice("a", 1, "closed"), notice("b", 1), notice("c", 1)]
    assert with_incidents(ended, [], [first]) == ([*ended, first], {"b episode 1"})
    ended = [notice("a", 1, "closed"), notice("b", 1, "closed"), notice("c", 1)]
    assert with_incidents(ended, [], [first]) == (ended, set())


SECRET = "".join(random.Random(1).choices(string.ascii_letters, k=20))


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([], "--alertmanager = None: must be given, or --webhook or --mail-to"),
        (["--webhook", "ftp://here"], "--webhook = 'ftp://here': must be http://HOST"),
        (["--webhook", f"http://me:{SECRET}@here/"], "secrets are in files"),
        (["--webhook-file", "secret"], "the text of secret"),
        (["--webhook-file", "nothing"], "cannot be read: FileNotFoundError"),
        (["--webhook", "http://a", "--webhook-form", "pagerduty"], "--webhook-secret = None"),
        (["--webhook-token", "secret"], "--webhook-token = 'secret': must be left out without"),
        (["--mail-to", "a@b"], "--mail-from = None: must be given with --mail-to"),
        (["--mail-to", "a", "--mail-from", "b@c", "--smtp", "h"], "NAME@HOST"),
        (["--mail-to", "a@b", "--mail-from", "b@c", "--smtp", "h:x"], "HOST or HOST:PORT (587"),
        (
            [
                *("--mail-to", "a@b", "--mail-from", "b@c", "--smtp", "h", "--smtp-user", "me"),
                *("--smtp-password", "secret", "--smtp-security", "none"),
            ],
            "not none where a password is sent",
        ),
        (["--alertmanager", "http://a", "--alertmanager-labels", "a-b=1"], "NAME=VALUE"),
        (["--alertmanager", "http://a", "--per-minute", "0"], "--per-minute = 0: must be 1 to"),
        (["--alertmanager", "http://a", "--follow", "0"], "--follow = 0.0"),
        (["--alertmanager", "http://a", "--brokers", "x:1"], "left out without a topic"),
        (["--alertmanager", "http://a", "--devices-topic", "x"], "DIR = 'run x': must be a run's"),
        (["--alertmanager", "http://a", "--output-format", "arrow"], "left out without --topic"),
        (["--alertmanager", "http://a", "--groups", "x.csv"], "left out without --devices-topic"),
        (["--alertmanager", "http://a", "--periods-topic", "t"], "--periods-topic = 't': must be"),
    ],
)
def test_bad_flags_are_one_line_without_secrets(
    words: list[str],
    error: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_text(SECRET)
    assert main(["notify", "run", *words, "--state", "state"]) == 2
    text = capsys.readouterr().err
    assert error in text and len(text.splitlines()) == 1
    assert SECRET not in text


def test_json_of_plain_is_stable() -> None:
    """People write programs against it."""
    names = json.dumps(sorted(filled(PRESETS["plain"], Event(notice()), "")))
    assert names == json.dumps(
        ["channels", "device", "episode", "key", "kind", "severity", "since", "status", "summary"]
    )
