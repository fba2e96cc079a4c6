"""The report's page: HTML around the figures."""
