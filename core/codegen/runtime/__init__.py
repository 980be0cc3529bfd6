"""From assembly text to kernels in this process, and to files."""
