"""``python3 -m farlink.campaign``: a campaign over a Ray cluster; ``farlink campaign run --on ray`` starts it."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from typing import List, Optional

from . import ConfigError, RunError
from . import ray as cluster


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m farlink.campaign", description=__doc__)
    what = parser.add_subparsers(dest="what", required=True)
    run = what.add_parser("run", help="run a campaign")
    run.add_argument("campaign", help="its folder")
    run.add_argument("--out", required=True, help="folder of the results")
    run.add_argument("--smoke", action="store_true", help="its small size")
    run.add_argument("--only", action="append", default=[], metavar="FIGURE", help="only this figure")
    run.add_argument("--repetitions", type=int, help="runs of each point")
    resume = what.add_parser("resume", help="go on with one that was stopped")
    resume.add_argument("folder", help="folder of the results")
    for parser_of in (run, resume):
        parser_of.add_argument("--jobs", type=int, help="cells under way at once")
        parser_of.add_argument("--address", help="of the cluster; without it RAY_ADDRESS, or one on this machine")
        parser_of.add_argument("--json", action="store_true", help="print one JSON document")
    return parser


class _Shown:
    """A line every ten seconds, and for each worker that is lost."""

    def __init__(self) -> None:
        self.said = time.monotonic()
        self.lost = 0

    def __call__(self, done: int, total: int, lost: int) -> None:
        if lost > self.lost:
            print(f"workers lost: {lost}; their cells are run again", file=sys.stderr)
            self.lost = lost
        if time.monotonic() - self.said >= 10:
            self.said = time.monotonic()
            print(f"cells: {done} of {total}", file=sys.stderr)


def main(words: Optional[List[str]] = None) -> int:
    """Exit status: 0 done, 1 a cell failed or it was stopped, 2 bad input."""
    given = _arguments().parse_args(words)
    common = {"address": given.address, "jobs": given.jobs, "progress": _Shown()}
    folder = given.out if given.what == "run" else given.folder
    try:
        # Ray tells of machines that it lost on standard output, which is for data.
        with contextlib.redirect_stdout(sys.stderr):
            if given.what == "run":
                chosen = {"smoke": given.smoke, "only": given.only, "repetitions": given.repetitions}
                outcome = cluster.campaign(given.campaign, given.out, **chosen, **common)
            else:
                outcome = cluster.resume(given.folder, **common)
    except (ConfigError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (RunError, ConnectionError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"error: stopped\nhint: `farlink campaign resume {folder} --on ray` goes on", file=sys.stderr)
        return 1
    if given.json:
        told = {"folder": os.fspath(outcome.folder), "report": os.fspath(outcome.page or ""), "cells": outcome.cells}
        failed = [{"cell": name, "why": why} for name, why in sorted(outcome.failed.items())]
        print(json.dumps({**told, "ran": outcome.ran, "workers_lost": outcome.lost, "failed": failed}, indent=2))
    else:
        print(outcome.text, end="")
        print(outcome.page, file=sys.stderr)
    if outcome.failed:
        name, why = sorted(outcome.failed.items())[0]
        count = f"{len(outcome.failed)} of {outcome.cells} cells failed"
        print(f"error: {count}, the first of them {name}: {why}", file=sys.stderr)
        print(f"hint: `farlink campaign resume {folder} --on ray` tries again", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
