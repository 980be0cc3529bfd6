"""Entry point of `python -m pegbox`, the same as `pegbox`."""

import sys

from pegbox.plugins.cli import main

if __name__ == "__main__":
    sys.exit(main())
