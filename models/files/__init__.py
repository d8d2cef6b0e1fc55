"""Weight files of unknown origin: told by their content, read without running anything; ours, written whole."""
