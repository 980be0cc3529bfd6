"""`python3 tests/helpers/fuzz --cases 20000 --start 1000000`: run random cases until one fails; `--seed N` runs one."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.driver import CaseFailed, Tally, draw_case, run, run_case
from pegbox.schedule import Trace


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="run only this one, and show its program")
    parser.add_argument("--start", type=int, default=1_000_000)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--go-on", action="store_true", help="report failures and go on")
    parser.add_argument("--kind", help="of graphs; by default all")
    parser.add_argument("--language", choices=("te", "tir"))
    parser.add_argument("--trace", help="the steps of --seed, as a report tells them, instead of drawing them again")
    args = parser.parse_args()
    tally, failed = Tally(), 0
    if args.seed is not None:
        case = draw_case(args.seed, args.kind, args.language)
        if args.trace is not None:
            case = replace(case, trace=Trace.from_json(args.trace), steps=())
        run_case(case, tally)
        print(case.graph(), run(case, tally), sep="\n")
        return 0
    for seed in range(args.start, args.start + args.cases):
        try:
            run_case(draw_case(seed, args.kind, args.language), tally)
        except CaseFailed as error:
            failed += 1
            print(error, flush=True)
            if not args.go_on:
                break
    print(tally)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
