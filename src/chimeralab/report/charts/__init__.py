"""Charts shared by reports and pages: functions from numbers to Vega-Lite charts."""
