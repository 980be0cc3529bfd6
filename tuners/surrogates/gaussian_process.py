"""A Gaussian process over configurations.

Rasmussen and Williams, "Gaussian Processes for Machine Learning" (MIT Press 2006), chapters 2 and 5. The length scale
of each group of columns, and the noise, maximise the marginal likelihood times a prior (L-BFGS with exact gradients);
the mean and the variance of the process are integrated out and maximised away in closed form. Trends, columns that are
expected to grow with the targets, have slopes with their own prior.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np

from pegbox.measure import blas_threads
from pegbox.search import Floats
from pegbox.tuners.rows import Places

Groups: TypeAlias = Places
"""The number of each column's length scale, which several columns may share."""

LENGTH, LENGTH_SPREAD = 0.5, 0.8
"""The prior of a length scale: its median, and the standard deviation of its logarithm. The median grows with the root
of the number of scales, because distances do (Hvarfner et al., "Vanilla Bayesian Optimization Performs Great in High
Dimensions", ICML 2024, whose median is four times the root)."""


class NoisePrior(NamedTuple):
    """A prior of the logarithm of the noise's share of the variance: normal, above a minimum."""

    mean: float
    spread: float
    least: float


NOISE = NoisePrior(-4.0, 1.0, -9.0)
"""The prior for measured programs, with a noise of 2% to 10%."""

EXACT = NoisePrior(-6.0, 2.0, -14.0)
"""The prior for functions of numbers, which often have no noise at all."""

MOST_NOISE = 1.0
"""The largest logarithm of that share."""

SIGNAL = (2.0, 2.0)
"""The inverse-gamma prior of the process's variance; targets have variance one."""

SLOPE = (0.5, 0.5)
"""The mean and standard deviation of the prior of the trends' total slope: a trend may explain nothing, or all."""

LENGTH_BOUNDS = (-3.0, 6.0)

TUNED = 96
"""The largest number of rows for tuning the parameters, some from each quantile of the targets.

A step costs the cube of the number, and the lengths of a few dozen knobs are known by then.
"""

DECIMALS, DIGITS = 3, 6
"""The number of decimals for logarithms of the parameters, and for compared beliefs.

The last bits of a sum, which depend on the number of threads, must not change proposals.
"""


MOST_SIGMAS, FAR = 30.0, 1e4
"""The largest number of standard deviations by which a mean counts as below a target, or above one by formula.

Beyond the second number, the share of an improvement comes from a series, because the formula cancels there.
"""


def one_thread() -> AbstractContextManager[None]:
    """Run the body with one thread in every OpenBLAS of this process. Other libraries stay as they are.

    A Gaussian process of a few hundred trials makes thousands of calls that take microseconds. OpenBLAS spreads each
    over all cores, and if these are busy, its threads spin while they wait for each other: on two busy cores, a search
    took four times the processor time.
    """
    import scipy.linalg  # noqa: F401  (slow to import; the body would load it)

    return blas_threads(1)


def squared_distances(x: Floats, groups: Groups) -> Floats:
    """Compute the squared distances between all rows of `x` (n, columns) for each group: shape (groups, n, n)."""
    distances = np.zeros((int(groups.max(initial=-1)) + 1, len(x), len(x)))
    for column, group in zip(x.T, groups.tolist(), strict=True):
        difference = column[:, None] - column[None, :]
        distances[group] += difference * difference
    return distances


def matern(squared: Floats) -> tuple[Floats, Floats]:
    """Compute Matérn 5/2 of squared scaled distances, and its derivative by them.

    It is twice differentiable, as smooth as the times of programs ever are: Snoek et al., "Practical Bayesian
    Optimization of Machine Learning Algorithms" (NeurIPS 2012).
    """
    root = np.sqrt(5.0 * squared)
    decay = np.exp(-root)
    return (1.0 + root + root * root / 3.0) * decay, (-5.0 / 6.0) * (1.0 + root) * decay


def covariances(a: Floats, b: Floats) -> Floats:
    """Return the kernel between rows of `a` and of `b`, divided by their length scales: shape (len(a), len(b))."""
    squared = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1)[None, :] - 2.0 * (a @ b.T)
    return matern(np.maximum(squared, 0.0))[0]


@dataclass(frozen=True)
class Points:
    """The rows in the process's terms: `coordinates` (m, c) divided by their length scales, and `trends` (m, t).

    A trend predicts the targets across the whole space; `trends` are multiplied by the standard deviation of the
    unknown part of their slopes. This adds a linear kernel (Rasmussen and Williams, section 2.7).
    """

    coordinates: Floats
    trends: Floats

    def covariance(self, others: Points) -> Floats:
        """Return the covariance with `others`, shape (m, len(others)), relative to the variance of the process."""
        found: Floats = covariances(self.coordinates, others.coordinates) + self.trends @ others.trends.T
        return found

    def variance(self) -> Floats:
        """Return the variance of each point, shape (m,)."""
        variance: Floats = 1.0 + (self.trends * self.trends).sum(axis=1)
        return variance

    def join(self, others: Points) -> Points:
        """Append the other points to these."""
        coordinates = np.concatenate([self.coordinates, others.coordinates])
        return Points(coordinates, np.concatenate([self.trends, others.trends]))

    def only(self, place: int) -> Points:
        """Return only the point at a place."""
        return Points(self.coordinates[place : place + 1], self.trends[place : place + 1])


@dataclass(frozen=True)
class Posterior:
    """The belief about some rows: `mean` and `variance` (m,), of the process without the noise."""

    mean: Floats
    variance: Floats
    noise: float
    _signal: float
    _points: Points
    _root: Floats

    def bounds(self, boldness: float) -> Floats:
        """Compute optimistic costs of the rows: the mean minus so many standard deviations, shape (m,)."""
        return np.round(self.mean - boldness * np.sqrt(self.variance), DIGITS)

    def improvements(self, least: float) -> Floats:
        """Compute the logarithms of the expected improvements on a target, up to a constant, shape (m,).

        Far from it, the improvements underflow, but their logarithms do not: Ament et al., "Unexpected Improvements to
        Expected Improvement for Bayesian Optimization" (NeurIPS 2023).
        """
        from scipy.special import erfcx  # slow to import

        deviation = np.sqrt(self.variance)
        z = np.minimum((least - self.mean) / deviation, MOST_SIGMAS)
        # The improvement is the deviation times the normal density at z times a share.
        shares = 1.0 + z * math.sqrt(math.pi / 2.0) * erfcx(-z / math.sqrt(2.0))
        far = z < -FAR
        shares[far] = z[far] ** -2.0
        logarithms: Floats = np.round(np.log(deviation) - 0.5 * z * z + np.log(shares), DIGITS)
        return logarithms

    def join(self, other: Posterior) -> Posterior:
        """Join the rows of two beliefs of one process, before any of them is observed."""
        return replace(
            self,
            mean=np.concatenate([self.mean, other.mean]),
            variance=np.concatenate([self.variance, other.variance]),
            _points=self._points.join(other._points),
            _root=np.concatenate([self._root, other._root], axis=1),
        )

    def observe(self, place: int) -> Posterior:
        """Return the belief after measuring the row at `place` with its own mean as the result (the Kriging believer).

        Means stay unchanged, and variances shrink around it: Ginsbourger et al., "Kriging is Well-Suited to Parallelize
        Optimization" (2010).
        """
        own = self._root[:, place]
        chosen = self._points.only(place)
        alike = chosen.covariance(self._points)[0]
        left = math.sqrt(max(float(chosen.variance()[0]) + self.noise / self._signal - float(own @ own), 1e-9))
        root = np.concatenate([self._root, ((alike - own @ self._root) / left)[None, :]])
        shrunk = self.variance - self._signal * root[-1] ** 2
        return Posterior(self.mean, np.maximum(shrunk, 1e-12), self.noise, self._signal, self._points, root)


class GaussianProcess:
    """A Gaussian process: `fit` it, then ask for a `posterior`. Each fit starts from the parameters of the last one.

    Args:
        groups: for each column, the number of its length scale.
        trends: the number of standardised trends in further columns, with which the targets are expected to grow.
        noise: the prior of the logarithm of the noise's share.
        length: the prior's median of a length scale, for one group.
    """

    def __init__(self, groups: Groups, *, trends: int = 0, noise: NoisePrior = NOISE, length: float = LENGTH) -> None:
        self._groups, self._trends = groups, trends
        count = int(groups.max(initial=-1)) + 1
        self._middle = np.append(np.full(count, math.log(length * math.sqrt(max(1, count)))), noise.mean)
        self._spread = np.append(np.full(count, LENGTH_SPREAD), noise.spread)
        self._bounds = [LENGTH_BOUNDS] * count + [(noise.least, MOST_NOISE)]
        self.parameters: Floats = self._middle
        """The logarithms of the length scales, followed by that of the noise relative to the signal."""
        self.least = math.inf
        """The smallest target of the last fit."""

    def fit(self, x: Floats, y: Floats, *, steps: int) -> None:
        """Learn from rows `x` (n, columns) and targets `y` (n,), with so many steps on the parameters.

        Without rows, the belief comes from the trends.
        """
        from scipy.linalg import cho_solve  # SciPy is slow to import, so the first trial does not wait for it

        self._x, rest = x, y - self._drift(x)
        if steps:
            self._tune(x, rest, steps)
        points = self._points(x)
        covariance = points.covariance(points)
        covariance[np.diag_indices(len(y))] = points.variance() + math.exp(self.parameters[-1])
        self._factor = np.linalg.cholesky(covariance)
        weights = cho_solve((self._factor, True), np.ones(len(y)))
        self._mean = float(weights @ rest / weights.sum()) if len(y) else 0.0
        self.least = float(y.min(initial=math.inf))
        self._weights = cho_solve((self._factor, True), rest - self._mean)
        self._signal = (2.0 * SIGNAL[1] + float((rest - self._mean) @ self._weights)) / (len(y) + 2.0 * SIGNAL[0])

    def _tune(self, x: Floats, y: Floats, steps: int) -> None:
        """Take `steps` steps on the parameters, by rows `x` and the rest of their targets `y`."""
        from scipy.optimize import minimize

        if len(y) > TUNED:
            places = np.linspace(0, len(y) - 1, TUNED).astype(np.intp)
            chosen = np.sort(np.argsort(y, kind="stable")[places])
            x, y = x[chosen], y[chosen]
        trends = self._points(x).trends
        apart = squared_distances(x[:, : len(self._groups)], self._groups)
        found = minimize(
            self.loss,
            self.parameters,
            args=(apart.reshape(len(apart), len(y) ** 2), trends @ trends.T, y),
            jac=True,
            method="L-BFGS-B",
            bounds=self._bounds,
            options={"maxiter": steps},
        )
        self.parameters = np.round(found.x, DECIMALS)

    def mean(self, x: Floats) -> Floats:
        """Compute only the means of the rows `x` (m, columns), rounded to be independent of the order of sums."""
        alike = self._points(self._x).covariance(self._points(x))
        means: Floats = np.round(self._mean + self._drift(x) + self._weights @ alike, DIGITS)
        return means

    def posterior(self, x: Floats) -> Posterior:
        """Compute the posterior of the rows `x` (m, columns)."""
        from scipy.linalg import solve_triangular

        points = self._points(x)
        alike = self._points(self._x).covariance(points)
        root = solve_triangular(self._factor, alike, lower=True, check_finite=False)
        variance = self._signal * np.maximum(points.variance() - (root * root).sum(axis=0), 1e-12)
        noise = self._signal * math.exp(self.parameters[-1])
        return Posterior(
            self._mean + self._drift(x) + self._weights @ alike, variance, noise, self._signal, points, root
        )

    def covariance(self, x: Floats) -> Floats:
        """Compute the covariance of the rows `x` (m, columns) before any trial, relative to the variance: (m, m)."""
        points = self._points(x)
        return points.covariance(points)

    def _points(self, x: Floats) -> Points:
        lengths = np.exp(-self.parameters[:-1])[self._groups]
        columns = len(self._groups)
        return Points(x[:, :columns] * lengths, x[:, columns:] * (SLOPE[1] / math.sqrt(max(1, self._trends))))

    def _drift(self, x: Floats) -> Floats:
        """Compute the sum of the trends with their expected slopes."""
        drift: Floats = x[:, len(self._groups) :].sum(axis=1) * (SLOPE[0] / max(1, self._trends))
        return drift

    def loss(self, parameters: Floats, distances: Floats, linear: Floats, y: Floats) -> tuple[float, Floats]:
        """Compute the negative logarithm of likelihood times prior, up to a constant, and its gradient.

        `distances` are those of `squared_distances`, each group's flat: (groups, n * n). `linear` (n, n) is the
        covariance from trends, and `y` the rest of the targets.
        """
        from scipy.linalg import cho_solve

        n = len(y)
        weights, noise = np.exp(-2.0 * parameters[:-1]), math.exp(parameters[-1])
        kernel, slope = matern(weights @ distances)
        covariance = kernel.reshape(n, n) + linear
        covariance[np.diag_indices(n)] += noise
        try:
            factor = np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            return 1e10, np.zeros_like(parameters)
        inverse = cho_solve((factor, True), np.eye(n), check_finite=False)
        sums = inverse.sum(axis=0)
        centred = y - sums @ y / sums.sum()
        solved = inverse @ centred
        total, count = 2.0 * SIGNAL[1] + float(centred @ solved), n + 2.0 * SIGNAL[0]
        away = (parameters - self._middle) / self._spread
        loss = 0.5 * count * math.log(total) + float(np.log(np.diag(factor)).sum()) + 0.5 * float(away @ away)
        outer = 0.5 * (inverse - np.outer(solved, solved) * (count / total))
        by_length = (distances @ (outer.reshape(-1) * slope)) * (-2.0 * weights)
        return loss, np.append(by_length, np.trace(outer) * noise) + away / self._spread
