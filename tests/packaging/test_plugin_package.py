"""A third party's package, installed the way users install one, is found by its names."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "plugin_package"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package installed by pip, without a network, from a copy (building leaves files behind)."""
    copy = tmp_path_factory.mktemp("plugin") / "package"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build"))
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--target", target, copy], check=True, timeout=300)
    return target


def pegbox(*words: str, site: Path, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(site), **environ}
    command = [sys.executable, "-m", "pegbox", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env, check=False, timeout=300)


def test_plugin_is_listed_with_what_it_brings(site: Path, tmp_path: Path) -> None:
    ran = pegbox("plugins", "--json", site=site, cwd=tmp_path)
    (acme,) = (plugin for plugin in json.loads(ran.stdout) if plugin["name"] == "acme")
    assert acme["source"] == "pegbox-acme 0.3"
    assert acme["problems"] == []
    assert acme["provides"] == {
        "tuner": ["acme_walk"],
        "cost_model": ["acme_mean"],
        "runner": ["acme_cluster"],
        "template": ["acme_rows", "acme_scale"],
        "implementation": ["acme_rows"],
        "workload": ["acme_axpy"],
        "space_generator": ["acme_tiles"],
        "sketch_rule": ["acme_flat"],
        "results_reader": ["acme_lines"],
        "cli_command": ["acme-hello"],
    }


def test_plugin_can_be_disabled(site: Path, tmp_path: Path) -> None:
    ran = pegbox("acme-hello", "there", site=site, cwd=tmp_path, PEGBOX_DISABLE_PLUGINS="pegbox-acme")
    assert ran.returncode == 2
    assert "there is no cli command 'acme-hello'" in ran.stderr


def test_a_plugin_that_fails_on_import_is_shown_and_hurts_nobody(tmp_path: Path) -> None:
    (tmp_path / "fails_on_import.py").write_text("raise RuntimeError('needs a licence')\n")
    info = tmp_path / "pegbox_broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pegbox-broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[pegbox]\nbroken = fails_on_import\n")
    ran = pegbox("plugins", site=tmp_path, cwd=tmp_path)
    assert ran.returncode == 0
    assert "ERROR import: RuntimeError: needs a licence" in ran.stdout
    assert "tuner: bayes, droplet, evolution" in ran.stdout
    strict = pegbox("plugins", site=tmp_path, cwd=tmp_path, PEGBOX_STRICT_PLUGINS="1")
    assert strict.returncode == 2
    assert "plugin broken (pegbox-broken 1.0) failed, import: RuntimeError: needs a licence" in strict.stderr


def test_command_of_a_plugin_runs(site: Path, tmp_path: Path) -> None:
    ran = pegbox("acme-hello", "there", site=site, cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (0, "hello there\n")
    assert "acme-hello  Greet" in pegbox("--help", site=site, cwd=tmp_path).stdout


def test_without_the_package_its_names_are_unknown(tmp_path: Path) -> None:
    ran = pegbox("tune", "matmul", "64", "64", "64", "--tuner", "acme_walk", site=tmp_path, cwd=tmp_path)
    assert ran.returncode == 2
    assert "acme_walk" in ran.stderr


def test_template_of_a_plugin_is_listed(site: Path, tmp_path: Path) -> None:
    ran = pegbox("templates", site=site, cwd=tmp_path)
    assert "acme_scale(N, dtype='float32')" in ran.stdout


@pytest.mark.parametrize("task", [("acme_scale", "4096"), ("matmul", "64", "64", "64")])
def test_tuner_of_a_plugin_tunes(site: Path, tmp_path: Path, task: tuple[str, ...]) -> None:
    words = ("--tuner", "acme_walk:fresh=0.5", "--trials", "4", "--records", "acme.jsonl")
    ran = pegbox("tune", *task, *words, site=site, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    records = [json.loads(line) for line in (tmp_path / "acme.jsonl").read_text().splitlines()]
    assert len({record["config"]["index"] for record in records}) == 4
    assert "acme_walk" in ran.stdout


def test_space_generator_and_cluster_of_a_plugin_tune_its_workload(site: Path, tmp_path: Path) -> None:
    words = ("--space", "acme_tiles:levels=3", "--runner", "acme_cluster:machines=2", "--tuner", "random")
    ran = pegbox("tune", "acme_axpy", "960", *words, "--trials", "6", "--records", "a.jsonl", site=site, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "measuring on 2 machines" in ran.stderr
    records = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert len({record["config"]["index"] for record in records}) == 6
    assert {(record["result"][1], record["host"]) for record in records} == {(0, "acme")}
    knobs = {tuple(knob[0] for knob in record["config"]["entity"]) for record in records}
    assert knobs == {("scaled_tile", "scaled_vectors", "z_tile", "z_vectors")}


def test_sketch_rule_of_a_plugin_adds_a_sketch_where_it_fits(site: Path, tmp_path: Path) -> None:
    def sketches(columns: str) -> set[str]:
        words = ("sketch", "elementwise_chain", "512", columns, "--target", "llvm -mcpu=x86-64-v3 -num-cores 1")
        return {line.partition(":")[0] for line in pegbox(*words, site=site, cwd=tmp_path).stdout.splitlines()}

    assert sketches("3") == {"flat", "plain"}
    assert sketches("64") == {"plain"}


def test_sketches_of_a_plugins_rule_are_tuned(site: Path, tmp_path: Path) -> None:
    words = ("--space", "sketch", "--tuner", "grid", "--target", "llvm -num-cores 1", "--records", "a.jsonl")
    ran = pegbox("tune", "elementwise_chain", "512", "3", *words, "--trials", "2", site=site, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    records = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert {(record["config"]["entity"][0][2], record["result"][1]) for record in records} == {
        ("flat", 0),
        ("plain", 0),
    }


def test_cost_model_and_results_reader_of_a_plugin_search_what_another_tool_measured(
    site: Path, tmp_path: Path
) -> None:
    (tmp_path / "other.acme").write_text("".join(f"{x} {abs(x - 7) + 1}\n" for x in range(40)))
    tuner = "xgb:cost_model=acme_mean,plan_size=4"
    ran = pegbox("tune", "--simulate", "other.acme", "--tuner", tuner, "--trials", "40", site=site, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "x=7" in ran.stdout


def test_its_tuner_goes_through_a_suite_side_by_side_and_again_from_the_log(site: Path, tmp_path: Path) -> None:
    words = ["compare", "--suite", "knobs", "--tuners", "acme_walk,random", "--trials", "12", "--seeds", "2"]
    words += ["--jobs", "2", "--log", "runs.jsonl", "--csv"]
    first = pegbox(*words, "one.csv", site=site, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "acme_walk" in first.stdout
    assert "suite knobs, digest" in first.stdout
    lines = (tmp_path / "runs.jsonl").read_text().splitlines()
    assert len(lines) == 4 * 2 * 2
    (tmp_path / "runs.jsonl").write_text("\n".join(lines[:9]) + "\n" + lines[9][:50])  # killed in the tenth
    again = pegbox(*words, "two.csv", site=site, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "two.csv").read_text() == (tmp_path / "one.csv").read_text()
