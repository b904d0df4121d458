"""The command `epic` as a module: `python -m epic_core`."""

import sys

from epic_core.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
