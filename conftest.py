"""Registers the suite's plugins; what they do is told in `fixtures/`."""

pytest_plugins = ["fixtures.plugin"]
