"""Command-line flags of `notify`, and the receivers that they name."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from kerneltrack.errors import ConfigError, DataError
from pipelines.cli.command_line import path_name, refuse
from pipelines.devices.options import add_groups, add_periods_topic
from pipelines.notify.mail import NONE, STARTTLS, TLS, Mail
from pipelines.notify.post import check_url
from pipelines.notify.receivers import Alertmanager, Receiver, Webhook
from pipelines.notify.templates import PRESETS, read_template
from pipelines.topics.options import OF_BROKERS, add_brokers
from transforms.kafka.formats import OUTPUT_FORMATS

PER_MINUTE, MOST_PER_MINUTE = 60, 10_000
PATIENCE = 60.0
LONGEST_FOLLOW = 86_400.0
MOST_SECRET = 1 << 12
PORTS = {STARTTLS: 587, TLS: 465, NONE: 25}
MOST_PORT = 65_535


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `notify` to a parser."""
    parser.usage = (
        "kerneltrack notify (DIR | --devices-topic TOPIC | --topic TOPIC) --state FILE "
        "[receivers] [flags]"
    )
    parser.add_argument("folder", nargs="?", metavar="DIR", help="Folder of a run.")
    parser.add_argument(
        "--devices-topic",
        metavar="TOPIC",
        help="Read the --devices-topic of a live job: devices that are off now, and incidents.",
    )
    parser.add_argument("--topic", help="Read the episodes topic of a live job: every episode.")
    add_brokers(parser)
    parser.add_argument(
        "--output-format",
        choices=OUTPUT_FORMATS,
        default="json",
        help="Format of the topic's messages. [default %(default)s]",
    )
    parser.add_argument(
        "--faults",
        type=path_name,
        metavar="FILE",
        help="Name episodes after the known faults in this file, as `kerneltrack devices --faults` "
        "does.",
    )
    add_groups(parser)
    add_periods_topic(parser)
    parser.add_argument(
        "--state",
        required=True,
        type=path_name,
        metavar="FILE",
        help="Remember what was sent in this file. The first run creates it; use one file per "
        "folder or topic.",
    )
    parser.add_argument(
        "--follow",
        type=float,
        metavar="SECONDS",
        help="Continue until Ctrl-C, and look for new episodes at this interval. [default: end "
        "once all are sent]",
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=PATIENCE,
        metavar="SECONDS",
        help="Without --follow, try for this long to send. [default %(default)s]",
    )
    parser.add_argument(
        "--per-minute",
        type=int,
        default=PER_MINUTE,
        metavar="N",
        help="Send at most this many messages per minute to each receiver. [default %(default)s]",
    )
    _add_receivers(parser)


def _add_receivers(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("Alertmanager")
    group.add_argument("--alertmanager", metavar="URL", help="Send alerts to this Alertmanager.")
    group.add_argument(
        "--alertmanager-labels",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=VALUE",
        help="Add these labels to each alert.",
    )
    group.add_argument(
        "--alertmanager-token",
        type=path_name,
        metavar="FILE",
        help="Send the token in this file as Authorization: Bearer.",
    )
    group = parser.add_argument_group("webhook")
    group.add_argument("--webhook", metavar="URL", help="Send JSON to this address.")
    group.add_argument(
        "--webhook-file",
        type=path_name,
        metavar="FILE",
        help="Send JSON to the address in this file; addresses of Slack and Teams are secrets.",
    )
    group.add_argument(
        "--webhook-form", choices=tuple(PRESETS), help="Form of the JSON. [default plain]"
    )
    group.add_argument(
        "--webhook-template",
        type=path_name,
        metavar="FILE",
        help="Take the JSON from this file, with placeholders such as ${device} and ${summary}.",
    )
    group.add_argument(
        "--webhook-secret",
        type=path_name,
        metavar="FILE",
        help="Put the text of this file, such as PagerDuty's routing key, in place of ${secret}.",
    )
    group.add_argument(
        "--webhook-token",
        type=path_name,
        metavar="FILE",
        help="Send the token in this file as Authorization: Bearer.",
    )
    group = parser.add_argument_group("e-mail")
    group.add_argument(
        "--mail-to",
        nargs="+",
        action="extend",
        default=[],
        metavar="ADDRESS",
        help="Send e-mail to these people.",
    )
    group.add_argument("--mail-from", metavar="ADDRESS", help="Sender of e-mail.")
    group.add_argument("--smtp", metavar="HOST[:PORT]", help="Send e-mail through this server.")
    group.add_argument(
        "--smtp-security",
        choices=tuple(PORTS),
        default=STARTTLS,
        help="Encrypt the connection with STARTTLS, with TLS from the start, or not at all. The "
        "usual ports are 587, 465 and 25. [default %(default)s]",
    )
    group.add_argument(
        "--smtp-certificates",
        type=path_name,
        metavar="FILE",
        help="Trust the authorities in this file. [default: the system's]",
    )
    group.add_argument("--smtp-user", metavar="NAME", help="Log in with this name.")
    group.add_argument(
        "--smtp-password",
        type=path_name,
        metavar="FILE",
        help="Log in with the password in this file.",
    )


def check(args: argparse.Namespace) -> None:
    """Check what no single flag says of the source and the pace.

    Raises:
        ConfigError: for flags that do not go together, or are out of range.
    """
    given = [each for each in (args.folder, args.devices_topic, args.topic) if each is not None]
    if len(given) != 1:
        allowed = "a run's folder, or --devices-topic TOPIC, or --topic TOPIC: one of them"
        raise ConfigError("DIR", " ".join(given), allowed)
    if args.topic is None and args.output_format != "json":
        raise ConfigError("--output-format", args.output_format, "left out without --topic")
    if args.folder is not None:
        refuse(args, OF_BROKERS, "left out without a topic")
    if args.devices_topic is None:
        refuse(args, ("groups", "periods_topic"), "left out without --devices-topic")
    if args.follow is not None and not 0 < args.follow <= LONGEST_FOLLOW:
        raise ConfigError("--follow", args.follow, f"seconds, above 0, at most {LONGEST_FOLLOW:g}")
    if not 0 <= args.patience <= LONGEST_FOLLOW:
        raise ConfigError("--patience", args.patience, f"seconds, 0 to {LONGEST_FOLLOW:g}")
    if not 1 <= args.per_minute <= MOST_PER_MINUTE:
        raise ConfigError("--per-minute", args.per_minute, f"1 to {MOST_PER_MINUTE}")


def receivers_of(args: argparse.Namespace) -> list[Receiver]:
    """Return the receivers; secrets are read here.

    Raises:
        ConfigError: if there is none, or for flags that do not go together.
        DataError: for a file that cannot be read.
    """
    found: list[Receiver] = []
    if args.alertmanager is not None:
        url = check_url("--alertmanager", args.alertmanager)
        headers = _bearer("--alertmanager-token", args.alertmanager_token)
        found.append(Alertmanager(url, headers, _labels(args.alertmanager_labels)))
    else:
        of_alerts = ("alertmanager_labels", "alertmanager_token")
        refuse(args, of_alerts, "left out without --alertmanager")
    if args.webhook is not None or args.webhook_file is not None:
        found.append(_webhook(args))
    else:
        of_webhook = ("webhook_form", "webhook_template", "webhook_secret", "webhook_token")
        refuse(args, of_webhook, "left out without --webhook")
    if args.mail_to:
        found.append(_mail(args))
    else:
        of_mail = ("mail_from", "smtp", "smtp_certificates", "smtp_user", "smtp_password")
        refuse(args, of_mail, "left out without --mail-to")
    if not found:
        raise ConfigError("--alertmanager", None, "given, or --webhook or --mail-to")
    return found


def _webhook(args: argparse.Namespace) -> Webhook:
    if args.webhook is not None and args.webhook_file is not None:
        raise ConfigError("--webhook-file", args.webhook_file, "left out with --webhook")
    if args.webhook is not None:
        url = check_url("--webhook", args.webhook)
    else:
        field = "--webhook-file"
        url = check_url(
            field, _secret(field, args.webhook_file), f"the text of {args.webhook_file}"
        )
    if args.webhook_template is not None and args.webhook_form is not None:
        raise ConfigError("--webhook-form", args.webhook_form, "left out with --webhook-template")
    template: Any = PRESETS[args.webhook_form or "plain"]
    if args.webhook_template is not None:
        template = read_template("--webhook-template", args.webhook_template)
    secret = ""
    if args.webhook_secret is not None:
        secret = _secret("--webhook-secret", args.webhook_secret)
    elif "${secret}" in str(template):
        raise ConfigError("--webhook-secret", None, "the file of what ${secret} is")
    return Webhook(url, template, _bearer("--webhook-token", args.webhook_token), secret)


def _mail(args: argparse.Namespace) -> Mail:
    for name in ("mail_from", "smtp"):
        if getattr(args, name) is None:
            raise ConfigError(f"--{name}".replace("_", "-"), None, "given with --mail-to")
    for field, addresses in (("--mail-from", [args.mail_from]), ("--mail-to", args.mail_to)):
        for address in addresses:
            if "@" not in address or not address.isprintable():
                raise ConfigError(field, address, "NAME@HOST")
    host, colon, port = args.smtp.partition(":")
    usual = PORTS[args.smtp_security]
    if not host or (colon and not (port.isdecimal() and 0 < int(port) <= MOST_PORT)):
        raise ConfigError("--smtp", args.smtp, f"HOST or HOST:PORT ({usual} without)")
    if (args.smtp_user is None) != (args.smtp_password is None):
        raise ConfigError("--smtp-user", args.smtp_user, "given together with --smtp-password")
    if args.smtp_user is not None and args.smtp_security == NONE:
        raise ConfigError("--smtp-security", NONE, "not none where a password is sent")
    password = ""
    if args.smtp_password is not None:
        password = _secret("--smtp-password", args.smtp_password)
    return Mail(
        host,
        int(port) if colon else usual,
        args.smtp_security,
        args.mail_from,
        tuple(args.mail_to),
        args.smtp_user,
        password,
        args.smtp_certificates,
    )


def _labels(pairs: list[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier() or not name.isascii():
            raise ConfigError("--alertmanager-labels", pair, "NAME=VALUE, letters and digits")
        found[name] = value
    return found


def _bearer(field: str, path: str | None) -> dict[str, str]:
    return {} if path is None else {"Authorization": f"Bearer {_secret(field, path)}"}


def _secret(field: str, path: str) -> str:
    """Return the first line of a file.

    Raises:
        DataError: if it cannot be read, or is empty; never with what it holds.
    """
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.readline(MOST_SECRET).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(path, f"{field} cannot be read: {type(error).__name__}") from None
    if not text or not text.isprintable():
        raise DataError(path, f"{field} holds no text")
    return text
