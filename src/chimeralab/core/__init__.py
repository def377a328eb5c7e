"""What everything stands on: records, errors, files, tables, numbers, parts, secrets."""
