"""`pegbox sweep`, and `pegbox tune --simulate` on what it recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import pegbox as pb
from pegbox.measure import Failed, FailureKind, Measurer, Ok, Result
from pegbox.records import Journal
from pegbox.search import problem
from pegbox.space import Config

TEMPLATE = str(Path(__file__).parents[1] / "helpers" / "task_templates.py") + ":rows"


class Machine(Measurer):
    """Measures without compiling; keeps what it was opened with."""

    fails = False

    def __init__(self, task: Any, **options: Any) -> None:
        type(self).options = options

    options: dict[str, Any] = {}  # noqa: RUF012

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def measure(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
        return ((config, self.result(config)) for config in configs)

    def remeasure(self, configs: Sequence[Config]) -> list[Result]:
        return [self.result(config) for config in configs]

    def result(self, config: Config) -> Result:
        if self.fails:
            return Failed(FailureKind.CRASH, "killed", 0.1)
        return Ok((1e-3 * (1 + config.index % 61),), 0.5, 1.0, {"build": 0.4, "timing": 0.1})


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> type[Machine]:
    monkeypatch.setattr(Machine, "fails", False)
    monkeypatch.setattr(problem, "LocalMeasurer", Machine)
    return Machine


@pytest.fixture
def swept(pegbox: Any) -> Path:
    assert pegbox("sweep", TEMPLATE, 8, 4, "--configs", 60, "--records", "space.jsonl", "-q").code == 0
    return Path("space.jsonl")


def test_a_sweep_prints_a_summary_and_what_it_is_for(pegbox: Any) -> None:
    ran = pegbox("sweep", TEMPLATE, 8, 4, "--configs", 50, "--records", "space.jsonl")
    assert ran.code == 0
    assert "50 of 50 configurations measured, 50 of them now" in ran.out
    assert "reach 95% of it" in ran.out
    assert "records: space.jsonl\n" in ran.out
    assert f"next:    pegbox compare {TEMPLATE} 8 4 --simulate space.jsonl --tuners " in ran.out
    assert "50/50 trials" in ran.err
    assert "pass 1 over the fastest" in ran.err


def test_the_same_command_goes_on(pegbox: Any, swept: Path) -> None:
    ran = pegbox("sweep", TEMPLATE, 8, 4, "--configs", 70, "--records", swept, "--quiet")
    assert "70 of 70 configurations measured, 10 of them now" in ran.out
    assert ran.err == ""
    assert "next" not in ran.out


def test_options_reach_the_machine_and_records_have_a_name(pegbox: Any, machine: type[Machine]) -> None:
    ran = pegbox("sweep", TEMPLATE, 8, 4, "--configs", "all", "--timeout", "2s", "--runner", "local", "--seed", 3)
    assert ran.code == 0
    assert "records: rows-8x4.sweep.jsonl" in ran.out
    assert {name: machine.options[name] for name in ("runner", "seed", "timeout")} == {
        "runner": "local",
        "seed": 3,
        "timeout": 2.0,
    }
    assert len(pb.recorded_space("rows-8x4.sweep.jsonl")) == 768


def test_packing_when_done(pegbox: Any) -> None:
    ran = pegbox("sweep", TEMPLATE, 8, 4, "--configs", 20, "--records", "space.jsonl", "--pack", "space.jsonl.xz")
    assert ran.code == 0
    assert "packed:  space.jsonl.xz (20 configurations, 1 kB)" in ran.out
    assert "--simulate space.jsonl.xz" in ran.out
    assert len(Journal("space.jsonl.xz").read()) == 20


def test_a_sweep_that_was_stopped_packs_nothing(pegbox: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Machine, configs: Sequence[Config]) -> list[Result]:
        raise KeyboardInterrupt

    monkeypatch.setattr(Machine, "remeasure", interrupted)
    words = ("--configs", 20, "--records", "space.jsonl", "--pack", "space.jsonl.xz")
    ran = pegbox("sweep", TEMPLATE, 8, 4, *words)
    assert ran.code == 0
    assert "stopped: interrupted" in ran.out
    assert "next:    repeat the command to go on" in ran.out
    assert not Path("space.jsonl.xz").exists()


def test_nothing_valid_exits_with_one(pegbox: Any, machine: type[Machine], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "fails", True)
    ran = pegbox("sweep", TEMPLATE, 8, 4, "--configs", 5, "--records", "space.jsonl")
    assert ran.code == 1
    assert "5 crash" in ran.out
    assert "none of the 5 configurations gave a valid kernel" in ran.err


@pytest.mark.parametrize("count", ["0", "-3", "many", "1.5"])
def test_a_count_that_is_none(pegbox: Any, count: str) -> None:
    ran = pegbox("sweep", TEMPLATE, 8, 4, f"--configs={count}")
    assert ran.code == 2
    assert count in ran.err


def test_a_search_on_what_was_recorded(pegbox: Any, swept: Path) -> None:
    ran = pegbox("tune", "--simulate", swept, "--tuner", "random", "--trials", 30)
    assert ran.code == 0
    assert "30 trials in 15." in ran.out
    assert "s of recorded time" in ran.out
    assert "simulated" in ran.err
    assert [path.name for path in Path().iterdir()] == [swept.name]  # nothing simulated is kept
    assert "records" not in ran.out
    assert "next" not in ran.out


def test_the_task_may_be_named_and_must_then_be_the_recorded_one(pegbox: Any, swept: Path) -> None:
    words = ("--simulate", swept, "--tuner", "random", "--trials", 5)
    assert pegbox("tune", TEMPLATE, 8, 4, *words).code == 0
    ran = pegbox("tune", TEMPLATE, 16, 4, *words)
    assert ran.code == 2
    assert "space.jsonl' holds no record of test_rows(n=16, m=4" in ran.err


def test_a_host_is_chosen(pegbox: Any, swept: Path) -> None:
    first = swept.read_text().splitlines()[0]
    record = Journal(swept).read()[0]
    with swept.open("a") as file:
        file.write(first.replace(record.host, "elsewhere") + "\n")
    ran = pegbox("tune", "--simulate", swept, "--tuner", "random")
    assert ran.code == 2
    assert "several hosts" in ran.err
    assert "--host" in ran.err
    assert pegbox("tune", "--simulate", swept, "--tuner", "random", "--host", "elsewhere").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--records", "new.jsonl"], "--simulate measures nothing: it excludes --records"),
        (["--resume"], "excludes --resume"),
        (["--runner", "local"], "excludes --runner"),
        (["--timeout", "3s"], "excludes --timeout"),
    ],
)
def test_what_a_simulation_has_no_use_for(pegbox: Any, swept: Path, words: list[str], said: str) -> None:
    ran = pegbox("tune", "--simulate", swept, *words)
    assert ran.code == 2
    assert said in ran.err


def test_neither_a_task_nor_records(pegbox: Any) -> None:
    assert "name a TEMPLATE with its arguments, or the records" in pegbox("tune", "--trials", 3).err
    assert "--host chooses among records" in pegbox("tune", TEMPLATE, 8, 4, "--host", "here").err
    ran = pegbox("tune", "--simulate", "nowhere")
    assert ran.code == 2
    assert "'nowhere' is neither a file nor a recorded space that ships" in ran.err


def test_transfer_is_handed_on(pegbox: Any, api: Any) -> None:
    assert pegbox("tune", TEMPLATE, 8, 4, "--transfer", "a.jsonl", "--transfer", "b.jsonl", "--no-records").code == 0
    assert api.calls["tune"]["transfer"] == ["a.jsonl", "b.jsonl"]


def test_transfer_that_the_tuner_does_not_take(pegbox: Any, swept: Path) -> None:
    ran = pegbox("tune", "--simulate", swept, "--tuner", "random", "--transfer", "a.jsonl")
    assert ran.code == 2
    assert "the tuner random cannot learn from other shapes" in ran.err


def test_all_of_it_in_passes(pegbox: Any) -> None:
    ran = pegbox("sweep", TEMPLATE, 8, 4, "--configs", 12, "--passes", 2, "--records", "space.jsonl")
    assert "pass 2 of 2 over all: 12/12 measured again" in ran.err
    assert "12 were measured again" in ran.out


def test_a_name_that_says_no_way_of_packing_is_refused_before_anything_is_measured(pegbox: Any) -> None:
    ran = pegbox("sweep", TEMPLATE, 8, 4, "--configs", 5, "--records", "space.jsonl", "--pack", "space.txt")
    assert ran.code == 2
    assert "the name must end in .jsonl" in ran.err
    assert not Path("space.jsonl").exists()


def test_interrupted_before_anything_was_measured(pegbox: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Machine, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
        raise KeyboardInterrupt

    monkeypatch.setattr(Machine, "measure", interrupted)
    ran = pegbox("sweep", TEMPLATE, 8, 4, "--configs", 5, "--records", "space.jsonl")
    assert ran.code == 130
    assert "none of the" not in ran.err


def test_the_summary_of_packed_records_counts_what_they_hold(pegbox: Any, swept: Path) -> None:
    plain = pegbox("best", swept)
    pb.pack_space(swept, "space.jsonl.xz")
    packed = pegbox("best", "space.jsonl.xz")
    assert "60 trials, 0 failed" in plain.out
    assert "60 trials, 0 failed" in packed.out
