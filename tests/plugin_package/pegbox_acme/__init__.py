"""An example plugin package for pegbox."""
