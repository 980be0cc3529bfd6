"""`python3 tests/helpers/fuzz --cases 100000 --go-on`: run random cases, until one fails or all; `--seed N`: one."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import guarded_calls

from fuzz.batches import run_batches
from fuzz.cases import LANGUAGES, Tally, draw_case
from fuzz.driver import run, run_case
from pegbox.codegen.targets.cores import usable_cores
from pegbox.schedule import Trace


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="run only this one, and show its program")
    parser.add_argument("--start", type=int, default=1_000_000)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=len(usable_cores()), help="processes; by default the usable cores")
    parser.add_argument("--go-on", action="store_true", help="report failures and go on")
    parser.add_argument("--kind", help="of graphs; by default all")
    parser.add_argument("--language", choices=tuple(LANGUAGES))
    parser.add_argument("--thorough", action="store_true", help="every check of each case, and more often all of LLVM")
    parser.add_argument("--trace", help="the steps of --seed, as a report has them, instead of drawing them again")
    args = parser.parse_args()
    guarded_calls.install()
    if args.seed is None:
        return _many(args)
    case = draw_case(args.seed, args.kind, args.language, thorough=args.thorough)
    if args.trace is not None:
        case = replace(case, trace=Trace.from_json(args.trace), steps=())
    run_case(case, tally := Tally())
    if case.language not in ("script", "sizes"):
        print(case.graph())
    print(run(case, tally))
    return 0


def _many(args: argparse.Namespace) -> int:
    def work(seed: int, tally: Tally) -> None:
        run_case(draw_case(seed, args.kind, args.language, thorough=args.thorough), tally)

    tally, failed, started = Tally(), [], time.monotonic()
    for outcome in run_batches(range(args.start, args.start + args.cases), work, jobs=max(args.jobs, 1)):
        tally.update(outcome.tally)
        if outcome.failure:
            failed.append(outcome.key)
            print(outcome.failure, flush=True)
            if not args.go_on:
                break
    seconds = time.monotonic() - started
    print(tally)
    print(f"{seconds:.0f} s, {tally.cases / seconds:.1f} cases a second; {len(failed)} failed {failed or ''}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
