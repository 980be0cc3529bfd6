"""`python -m pegbox` is `pegbox`."""

import sys

from pegbox.plugins.cli import main

if __name__ == "__main__":
    sys.exit(main())
