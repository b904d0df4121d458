"""Page on which one looks at a memory and changes it: `epic inspect FILE`."""

from epic_apps.inspect.app import inspect_app, run_inspect

__all__ = ["inspect_app", "run_inspect"]
