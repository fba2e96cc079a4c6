"""`kerneltrack notify` with what really takes notifications: Alertmanager, SMTP, HTTP, Kafka."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.cli.main import main
from tests.e2e.clusters import PATIENCE, LocalCluster, make_topics, wait_for
from tests.e2e.jobs import command, environment
from tests.e2e.live import Live
from tests.e2e.secure import make_certificates
from tests.parts import program
from tests.receivers import HttpServer, mail_server

MINUTE = 60_000
ROWS = 900
OFF_FROM = 700
REFERENCE = ("--reference", "first", "--reference-rows", "256", "--reference-lags", "1")
SMALL = ("--rank", "3", "--budget", "5", "--neighbours", "0", "--overwrite")

Run = Callable[[int], str]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs the file job on rows of pump-1, off from a row on, pump-2, and pump-3, which ends."""

    def made(until: int) -> str:
        tables = []
        for number, stop in ((1, until), (2, until), (3, 600)):
            rng = np.random.default_rng(number)
            x = rng.normal(size=(stop, 3))
            if number == 1:
                x[OFF_FROM:ROWS, 1] += 8
            columns = {f"x{place}": x[:, place] for place in range(3)}
            times = pa.array(np.arange(stop) * MINUTE, pa.timestamp("ms", "UTC"))
            tables.append(pa.table({"device": [f"pump-{number}"] * stop, "time": times, **columns}))
        path, output = tmp_path / "rows.parquet", tmp_path / "run"
        pq.write_table(pa.concat_tables(tables), path)
        words = ("track", str(path), "--model-id", "device", "--time", "time", *REFERENCE, *SMALL)
        assert main([*words, "--silent-after", "2h", "--output", str(output)]) == 0
        return str(output)

    return made


def notify(place: str, tmp_path: Path, *words: str) -> int:
    return main(["notify", place, "--state", str(tmp_path / "state"), *words])


def test_a_webhook_hears_of_each_once_and_when_it_is_over(
    run: Run, server: HttpServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token, words = tmp_path / "token", ("--webhook", f"{server.url}/hook", "--webhook-token")
    token.write_text("very secret\n")
    server.answers = [(503, {"Retry-After": "1"})]
    folder = run(ROWS)
    capsys.readouterr()
    assert notify(folder, tmp_path, *words, str(token)) == 0
    assert "2 notifications sent" in capsys.readouterr().out
    assert {request.headers["Authorization"] for request in server.requests} == {
        "Bearer very secret"
    }
    (first, *taken) = server.bodies
    assert first in taken and len(taken) == 2
    off, silent = sorted(taken, key=lambda body: str(body["device"]))
    assert (off["device"], off["status"]) == ("pump-1", "firing")
    assert off["channels"] == "x1 100 % (+7.9)"
    assert abs(int(off["since"][11:13]) * 60 + int(off["since"][14:16]) - OFF_FROM) < 10
    assert (silent["device"], silent["kind"]) == ("pump-3", "silent")
    assert notify(folder, tmp_path, *words, str(token)) == 0
    assert len(server.requests) == 3
    # The device is well again, in a run on more rows.
    assert notify(run(1800), tmp_path, *words, str(token)) == 0
    (over,) = server.bodies[3:]
    assert (over["key"], over["status"]) == (off["key"], "resolved")
    assert over["since"] == off["since"] < over["until"]


def test_what_was_not_sent_is_sent_by_the_next_run(
    run: Run, server: HttpServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run(ROWS)
    server.answers = [(500, {})] * 2
    assert notify(folder, tmp_path, "--webhook", server.url, "--patience", "0") == 1
    assert "NOT SENT: the rest" in capsys.readouterr().out
    assert notify(folder, tmp_path, "--webhook", server.url) == 0
    assert len({body["key"] for body in server.bodies}) == 2


def test_a_template_says_what_is_sent(run: Run, server: HttpServer, tmp_path: Path) -> None:
    template, address, secret = (tmp_path / name for name in ("form.json", "address", "secret"))
    template.write_text('{"who": "${device}", "level": "${severity}", "key": ["${secret}"]}')
    address.write_text(server.url)
    secret.write_text("abc")
    words = ("--webhook-template", str(template), "--webhook-secret", str(secret))
    assert notify(run(ROWS), tmp_path, "--webhook-file", str(address), *words) == 0
    off, silent = sorted(server.bodies, key=lambda body: str(body["who"]))
    assert off["who"] == "pump-1" and off["level"] > 10 and off["key"] == ["abc"]
    assert silent == {"who": "pump-3", "key": ["abc"]}


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "starttls and a password"])
def test_e_mail_comes_over_smtp(secure: bool, run: Run, tmp_path: Path) -> None:
    folder, certificate, words = run(ROWS), None, ["--smtp-security", "none"]
    if secure:
        make_certificates(tmp_path / "tls")
        certificate = tmp_path / "tls" / "broker.crt", tmp_path / "tls" / "broker.key"
        password = tmp_path / "password"
        password.write_text("guess me")
        words = ["--smtp-certificates", str(tmp_path / "tls" / "ca.pem"), "--smtp-user", "me"]
        words += ["--smtp-password", str(password)]
    to = ("--mail-from", "kerneltrack@example.org", "--mail-to", "a@example.org", "b@example.org")
    with mail_server(certificate, ("me", "guess me") if secure else None) as mail:
        assert notify(folder, tmp_path, *to, "--smtp", mail.place, *words) == 0
        assert notify(run(1800), tmp_path, *to, "--smtp", mail.place, *words) == 0
    begun, silent, over = mail.messages
    assert begun["Subject"].startswith("pump-1 is off since 1970-01-01 11:")
    assert silent["Subject"] == "pump-3 has sent nothing since 1970-01-01 09:59:00 UTC"
    assert begun["To"] == "a@example.org, b@example.org"
    assert "channels: x1 100 %" in begun.get_payload()
    assert over["In-Reply-To"] == begun["Message-ID"] != over["Message-ID"]
    assert over["Subject"].startswith("pump-1 is well again")


class Alerting(NamedTuple):
    """An Alertmanager that posts to a server."""

    url: str
    hook: HttpServer

    def alerts(self) -> list[dict[str, Any]]:
        with urllib.request.urlopen(f"{self.url}/api/v2/alerts", timeout=10) as answer:
            found: list[dict[str, Any]] = json.load(answer)
        return sorted(found, key=lambda alert: str(alert["labels"]["device"]))

    def heard(self) -> list[tuple[str, str]]:
        """What its own receiver was sent: devices and states."""
        return [
            (alert["labels"]["device"], alert["status"])
            for body in self.hook.bodies
            for alert in body["alerts"]
        ]


@pytest.fixture
def alertmanager(server: HttpServer, tmp_path: Path) -> Iterator[Alerting]:
    binary = program("prometheus-alertmanager", "prometheus-alertmanager")
    with socket.create_server(("127.0.0.1", 0)) as free:
        place = f"127.0.0.1:{free.getsockname()[1]}"
    config = {
        "route": {"receiver": "hook", "group_by": ["..."], "group_wait": "0s"}
        | {"group_interval": "1s"},
        "receivers": [{"name": "hook", "webhook_configs": [{"url": server.url}]}],
    }
    path = tmp_path / "alertmanager.yml"
    path.write_text(json.dumps(config))
    words = [f"--config.file={path}", f"--storage.path={tmp_path / 'alertmanager'}"]
    words += [f"--web.listen-address={place}", "--cluster.listen-address="]
    log = (tmp_path / "alertmanager.log").open("w")
    with log, subprocess.Popen([binary, *words], stdout=log, stderr=log) as running:
        try:
            found = Alerting(f"http://{place}", server)
            wait_for("Alertmanager", lambda: _answers(found))
            yield found
        finally:
            running.terminate()


def _answers(alerting: Alerting) -> bool:
    try:
        return alerting.alerts() == []
    except OSError:
        return False


def test_alertmanager_takes_alerts_and_their_ends(
    run: Run, alertmanager: Alerting, tmp_path: Path
) -> None:
    words = ("--alertmanager", alertmanager.url, "--alertmanager-labels", "site=north")
    assert notify(run(ROWS), tmp_path, *words) == 0
    off, silent = alertmanager.alerts()
    assert off["labels"] == {
        "alertname": "DeviceOff",
        "device": "pump-1",
        "kind": off["labels"]["kind"],
        "episode": "episode 1",
        "site": "north",
    }
    assert off["annotations"]["summary"].startswith("pump-1 is off since 1970-01-01 11:")
    assert silent["labels"]["kind"] == "silent"
    both = [("pump-1", "firing"), ("pump-3", "firing")]
    wait_for("its notifications", lambda: sorted(alertmanager.heard()) == both)
    assert notify(run(1800), tmp_path, *words) == 0
    wait_for("the end", lambda: ("pump-1", "resolved") in alertmanager.heard())
    assert [alert["labels"]["device"] for alert in alertmanager.alerts()] == ["pump-3"]


def episode(number: int, state: str) -> bytes:
    line = {"model_id": "pump-1", "index": number, "episode": number, "state": state}
    line |= {"kind": "shift", "severity": 20.5, "p": 1e-9, "start_index": 7, "shares": [0.0, 1.0]}
    line |= {"deviations": [None, 2.5]}
    line["channels"] = [{"channel": "heat", "share": 1.0, "deviation": None}]
    line |= {"time": "2026-03-01T20:00:00.000000000Z", "start": "2026-03-01T19:59:00.000000000Z"}
    return json.dumps(line).encode()


def test_a_topic_is_followed_through_kills(
    cluster: LocalCluster, server: HttpServer, tmp_path: Path
) -> None:
    live = Live(cluster, "notified", "json")
    make_topics(live.client, "notified-episodes", partitions=2)
    producer = confluent_kafka.Producer(live.client)

    def send(number: int, state: str) -> None:
        producer.produce("notified-episodes", episode(number, state), b"pump-1")
        producer.flush(PATIENCE)

    follow = command(
        *("notify", "--topic", "notified-episodes", *live.place),
        *("--state", str(tmp_path / "state"), "--webhook", server.url, "--follow", "0.2"),
    )

    def taken() -> list[tuple[int, str]]:
        """What came, once each: a process that is killed may send again what it was sending."""
        return list(dict.fromkeys((body["episode"], body["status"]) for body in server.bodies))

    # What is over before anybody hears of it is not sent.
    send(1, "open")
    send(1, "closed")
    send(2, "open")
    wanted = []
    for number in (2, 3, 4):
        with subprocess.Popen(follow, env=environment(), stderr=subprocess.DEVNULL) as running:
            try:
                wanted.append((number, "firing"))
                wait_for("its beginning", lambda: taken() == wanted)
                if number == 3:
                    send(3, "closed")
                    wanted.append((3, "resolved"))
                    wait_for("its end", lambda: taken() == wanted)
                running.send_signal(signal.SIGKILL if number < 4 else signal.SIGINT)
                running.wait(PATIENCE)
            finally:
                running.kill()
        if number == 2:
            send(2, "closed")
            wanted.append((2, "resolved"))
        send(number + 1, "open")
    send(4, "closed")
    send(5, "closed")
    assert notify_topic(follow) == 0
    assert taken() == [*wanted, (4, "resolved")]
    assert len(server.bodies) <= len(wanted) + 1 + 2
    assert {body["channels"] for body in server.bodies} == {"heat 100 %"}


def notify_topic(follow: list[str]) -> int:
    """Run the command once, to the end of the topic."""
    return subprocess.run(follow[:-2], env=environment(), check=False).returncode
