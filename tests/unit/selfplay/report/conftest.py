"""The finished study and its report that the tests of all reports share."""

from tests.unit.report.conftest import material, report

__all__ = ["material", "report"]
