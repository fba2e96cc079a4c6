"""Notifications by e-mail, over SMTP."""

from __future__ import annotations

import hashlib
import smtplib
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate

from kerneltrack.errors import fit, printable
from pipelines.notify.notices import Event, iso_of
from pipelines.notify.post import TIMEOUT, DeliveryError

STARTTLS, TLS, NONE = "starttls", "tls", "none"
_REFUSED = 500
"""Answers from here on are final."""


@dataclass(frozen=True)
class Mail:
    """An SMTP server that takes a message for each notification.

    What is over is an answer to what had begun, so that mail programs show both together.

    Attributes:
        host: The server.
        port: Its port.
        security: `STARTTLS`, `TLS` from the beginning, or `NONE`.
        sender: Whom messages are from.
        to: Whom they are for.
        user: Name to log in with; None: without.
        password: Its password.
        certificates: File of the authorities that are trusted; None: the system's.
    """

    host: str
    port: int
    security: str
    sender: str
    to: tuple[str, ...]
    user: str | None = None
    password: str = ""
    certificates: str | None = None
    name: str = "mail"
    most: int = 1
    again: float | None = None

    def send(self, events: Sequence[Event]) -> None:
        """Send a message for each; see `Receiver.send`."""
        try:
            with self._server() as server:
                for event in events:
                    server.send_message(self.message(event))
        except smtplib.SMTPRecipientsRefused as error:
            whom = "; ".join(f"{name}: {answer}" for name, answer in error.recipients.items())
            raise DeliveryError(f"The mail server refuses {fit(whom)}") from None
        except smtplib.SMTPDataError as error:
            final = error.smtp_code >= _REFUSED
            text = f"The mail server refuses a message: {fit(error)}"
            raise DeliveryError(text, final=final) from None
        except (OSError, smtplib.SMTPException) as error:
            raise DeliveryError(f"The mail server does not take it: {fit(error)}") from None

    def _server(self) -> smtplib.SMTP:
        context = None
        if self.security != NONE:
            context = ssl.create_default_context(cafile=self.certificates)
        if self.security == TLS:
            server: smtplib.SMTP = smtplib.SMTP_SSL(
                self.host, self.port, timeout=TIMEOUT, context=context
            )
        else:
            server = smtplib.SMTP(self.host, self.port, timeout=TIMEOUT)
        try:
            if self.security == STARTTLS:
                server.starttls(context=context)
            if self.user is not None:
                server.login(self.user, self.password)
        except BaseException:
            server.close()
            raise
        return server

    def message(self, event: Event) -> EmailMessage:
        """Return a notification as a message."""
        message, notice = EmailMessage(), event.opened
        message["Subject"] = printable(event.summary)
        message["From"], message["To"] = self.sender, ", ".join(self.to)
        message["Date"] = formatdate()
        opening = self._number(event, "opening")
        message["Message-ID"] = self._number(event, "over") if event.over else opening
        if event.over:
            message["In-Reply-To"] = message["References"] = opening
        message["Auto-Submitted"] = "auto-generated"
        lines = {
            "device": printable(notice.device),
            "kind": event.kind,
            "since": iso_of(notice.start),
            "until": iso_of(event.until),
            "channels": event.channels,
            "severity": None if notice.severity is None else f"{notice.severity:.1f}",
        }
        shown = [f"{name}: {value}" for name, value in lines.items() if value]
        message.set_content("\n".join([event.summary, "", *shown, ""]))
        return message

    def _number(self, event: Event, what: str) -> str:
        """Return the ID of a message: the same one if it is sent again."""
        notice = event.opened
        text = f"{notice.key}\n{notice.start}\n{notice.start_index}\n{what}"
        digest = hashlib.sha256(text.encode()).hexdigest()[:32]
        return f"<{digest}@kerneltrack.invalid>"
