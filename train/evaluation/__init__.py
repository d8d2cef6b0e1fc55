"""Protocols that measure a checkpoint, one file each."""
