"""The command `epic` as a module: `python -m epic_apps`."""

import sys

from epic_apps.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
