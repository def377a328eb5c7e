"""Tests in a real browser. They are a package because one browser serves all of them."""
