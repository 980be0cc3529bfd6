"""The files of a comparison for a paper, in one folder: report, tables, values, figures."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pegbox.checks import check_path
from pegbox.comparison.aggregate.figures import FIGURES, save_figure
from pegbox.errors import ArgumentError
from pegbox.output import write_file

if TYPE_CHECKING:
    from pegbox.comparison.report import Comparison

FORMATS = ("svg", "pdf")


def write_paper(report: Comparison, folder: str | os.PathLike[str]) -> list[Path]:
    """Write the report (report.json, report.txt), the tables (table.tex, scores.csv), the figures and a citation.

    Return the files. Without matplotlib there are no figures. Raises `ArgumentError` if the folder cannot be written,
    or nothing can be aggregated.
    """
    found, place = report.aggregate(), check_path("folder", folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArgumentError(f"folder {str(place)!r} cannot be made: {error.strerror}") from error
    texts = {
        "report.txt": f"{report}\n",
        "table.tex": found.to_latex(),
        "scores.csv": found.to_csv(),
        "setup.txt": f"{citation(report)}\n",
    }
    report.save(place / "report.json")
    for name, text in texts.items():
        write_file(place / name, text)
    written = [place / "report.json", *(place / name for name in texts)]
    try:
        for name in FIGURES:
            for suffix in FORMATS:
                save_figure(report, name, place / f"{name}.{suffix}")
                written.append(place / f"{name}.{suffix}")
    except ImportError:
        return written
    return written


def citation(report: Comparison) -> str:
    """Write a sentence to cite: the suite with its digest, the version, tuners, trials and seeds."""
    setup = report.setup
    names = ", ".join(setup.tuners)
    suite = f"suite {setup.suite} (digest {setup.suite_digest[:16]})" if setup.suite else f"{len(setup.tasks)} spaces"
    missing = f", {len(setup.missing)} of its problems missing" if setup.missing else ""
    experience = "with" if setup.experience else "without"
    return (
        f"pegbox {setup.version}, {suite}{missing}; tuners {names}; {setup.trials} trials, "
        f"{len(setup.seeds)} seeds, {setup.start} common random trials, {experience} experience; {setup.started[:10]}"
    )
