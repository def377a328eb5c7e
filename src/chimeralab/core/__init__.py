"""Shared basics: records, errors, files, tables, number formats, parts, redaction."""
