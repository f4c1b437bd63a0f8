"""Presets: saved, checked, loaded, downloaded and published; weights in int8."""
