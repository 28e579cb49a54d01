"""Screens: one panel, the same in a host, in the standalone app and under test."""
