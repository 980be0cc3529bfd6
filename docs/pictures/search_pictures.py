"""Pictures of searches: simulated on a recorded space that ships with pegbox, so that they can be drawn anywhere."""

from __future__ import annotations

import itertools

from canvas import BLUE, GREY, INK, ORANGE, PALE, Canvas

import pegbox as pb
from pegbox.comparison.plot import best_svg

SPACE = "conv2d-512x7x7-nchw"
TRIALS = 60
_LEFT, _TOP, _WIDTH, _HEIGHT = 60.0, 40.0, 660.0, 250.0


def search() -> str:
    """The speed of each trial of two tuners, and of the best so far."""
    space = pb.recorded_space(SPACE)
    runs = [(name, colour, _speeds(space, name)) for name, colour in (("random", ORANGE), ("bayes", BLUE))]
    top = max(max(speeds) for _, _, speeds in runs) * 1.08
    canvas = Canvas(760, 350, f"A search: the speed of each trial, and of the best so far, on {SPACE}")
    canvas.text((_LEFT, 24), f"GFLOP/s of {SPACE}", bold=True)
    _axes(canvas, top)
    for place, (name, colour, speeds) in enumerate(runs):
        for number, speed in enumerate(speeds):
            canvas.circle(_at(number, speed, top), 2.5, fill=colour, hollow=place == 0)
        best = list(itertools.accumulate(speeds, max))
        steps = [_at(number, value, top) for n, value in enumerate(best) for number in (n, n + 1)]
        canvas.path(steps, stroke=colour, width=2, dashed=place == 0)
        canvas.text((_LEFT + 300 + 190 * place, 24), f"{name}, and its best so far", fill=colour)
    return canvas.svg()


def _speeds(space: pb.RecordedSpace, tuner: str) -> list[float]:
    """GFLOP/s of each trial, 0 for one that failed."""
    result = pb.tune(space, tuner=tuner, trials=TRIALS, progress=False)
    return [trial.gflops if trial.ok else 0.0 for trial in result.trials]


def _at(number: float, speed: float, top: float) -> tuple[float, float]:
    return _LEFT + _WIDTH * number / TRIALS, _TOP + _HEIGHT * (1 - speed / top)


def _axes(canvas: Canvas, top: float) -> None:
    for speed in range(0, int(top), 50):
        canvas.path([_at(0, speed, top), _at(TRIALS, speed, top)], stroke=PALE, width=1)
        x, y = _at(0, speed, top)
        canvas.text((x - 8, y + 4), str(speed), size=11, fill=GREY, anchor="end")
    for number in range(0, TRIALS + 1, 10):
        canvas.text((_at(number, 0, top)[0], _TOP + _HEIGHT + 18), str(number), size=11, fill=GREY, anchor="middle")
    canvas.path([_at(0, 0, top), _at(TRIALS, 0, top)], stroke=INK, width=1)
    canvas.text((_LEFT + _WIDTH, _TOP + _HEIGHT + 36), "trials; each dot is one", size=11, fill=GREY, anchor="end")


def report() -> str:
    """The curves of a comparison, as its page shows them."""
    space = pb.recorded_space(SPACE)
    compared = pb.compare(space, tuners=["bayes", "xgb", "random"], trials=TRIALS, seeds=5, progress=False)
    return best_svg(compared, compared.tasks[0].name) + "\n"
