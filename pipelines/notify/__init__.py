"""Notifications of devices that go off and are well again: Alertmanager, webhooks, e-mail."""
