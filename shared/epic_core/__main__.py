"""The command `epic` as a module: `python -m epic_core`."""

from epic_core.cli.main import main

if __name__ == "__main__":
    main()
