"""The report of a run: one self-contained page."""

from pipelines.report.write import write_report

__all__ = ["write_report"]
