#!python
"""The command `splay`, as the wheel installs it. The package's library has it, so the wheel holds the engine once."""

import signal
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec


def library():
    """The package's library, without the package: what the package imports takes longer than many commands."""
    package = PathFinder.find_spec("splay")
    spec = package and PathFinder.find_spec("splay._splay", package.submodule_search_locations)
    if not spec:
        sys.exit("splay: the Python package splay isn't installed beside this command")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Python's own handler would only note Ctrl-C until the command returns.
signal.signal(signal.SIGINT, signal.SIG_DFL)
sys.exit(library().command(["splay", *sys.argv[1:]]))
