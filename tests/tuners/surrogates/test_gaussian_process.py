"""The Gaussian process against sums written out in full."""

import math

import numpy as np
import pytest

from pegbox.search.protocols import Floats
from pegbox.tuners.surrogates.gaussian_process import LENGTH_SPREAD, NOISE, SIGNAL, GaussianProcess
from pegbox.tuners.surrogates.kernel import between, matern, squared_distances

GROUPS = np.array([0, 0, 1])
X = np.random.default_rng(0).random((12, 3))
Y = np.sin(5 * X[:, 0]) + X[:, 2]
NEW = np.random.default_rng(1).random((5, 3))


def covariance(a: Floats, b: Floats, lengths: Floats) -> Floats:
    """One pair at a time, Rasmussen and Williams, equation 4.17."""
    out = np.empty((len(a), len(b)))
    for i, one in enumerate(a):
        for j, other in enumerate(b):
            r = math.sqrt(5.0 * sum(((one[c] - other[c]) / lengths[GROUPS[c]]) ** 2 for c in range(3)))
            out[i, j] = (1.0 + r + r * r / 3.0) * math.exp(-r)
    return out


def direct(x: Floats, y: Floats, new: Floats, parameters: Floats, signal: float | None = None) -> tuple[Floats, Floats]:
    """Mean and variance by plain solving, with the mean that fits best."""
    lengths, noise = np.exp(parameters[:-1]), math.exp(parameters[-1])
    inverse = np.linalg.inv(covariance(x, x, lengths) + noise * np.eye(len(x)))
    middle = inverse.sum(axis=0) @ y / inverse.sum()
    cross = covariance(new, x, lengths)
    if signal is None:
        signal = (2 * SIGNAL[1] + (y - middle) @ inverse @ (y - middle)) / (len(y) + 2 * SIGNAL[0])
    mean = middle + cross @ inverse @ (y - middle)
    return mean, signal * (1.0 - np.einsum("ij,jk,ik->i", cross, inverse, cross))


def test_the_posterior_is_that_of_a_direct_solution() -> None:
    process = GaussianProcess(GROUPS)
    process.fit(X, Y, steps=8)
    posterior = process.posterior(NEW)
    mean, variance = direct(X, Y, NEW, process.parameters)
    assert posterior.mean == pytest.approx(mean, abs=1e-8)
    assert process.mean(NEW) == pytest.approx(mean, abs=1e-6)
    assert posterior.variance == pytest.approx(variance, abs=1e-8)


def test_observing_a_row_at_its_mean_is_fitting_with_it() -> None:
    process = GaussianProcess(GROUPS)
    process.fit(X, Y, steps=4)
    posterior = process.posterior(NEW)
    after = posterior.observe(2).observe(4)
    signal = posterior.noise / math.exp(process.parameters[-1])
    x, y = np.concatenate([X, NEW[[2, 4]]]), np.concatenate([Y, posterior.mean[[2, 4]]])
    mean, variance = direct(x, y, NEW, process.parameters, signal)
    assert after.variance == pytest.approx(variance, abs=1e-8)
    assert after.mean == pytest.approx(posterior.mean)
    assert after.mean == pytest.approx(mean, abs=0.02)  # the best constant mean moves a little
    assert (after.variance <= posterior.variance).all()


def test_the_gradient_is_that_of_finite_differences() -> None:
    process = GaussianProcess(GROUPS)
    distances = squared_distances(X, GROUPS).reshape(2, -1)
    parameters = np.array([-0.5, 0.3, -2.0])
    loss, gradient = process.loss(parameters, distances, Y)
    for place in range(3):
        step = np.zeros(3)
        step[place] = 1e-5
        up, down = process.loss(parameters + step, distances, Y)[0], process.loss(parameters - step, distances, Y)[0]
        assert gradient[place] == pytest.approx((up - down) / 2e-5, rel=1e-4)
    assert math.isfinite(loss)


def test_the_loss_is_the_likelihood_and_the_prior() -> None:
    """Differences of losses are differences of log densities, the variance of the process being maximised away."""

    def density(parameters: Floats) -> float:
        lengths, noise = np.exp(parameters[:-1]), math.exp(parameters[-1])
        full = covariance(X, X, lengths) + noise * np.eye(len(X))
        inverse = np.linalg.inv(full)
        rest = Y - inverse.sum(axis=0) @ Y / inverse.sum()
        total, count = 2 * SIGNAL[1] + rest @ inverse @ rest, len(Y) + 2 * SIGNAL[0]
        signal = total / count
        likelihood = -0.5 * rest @ inverse @ rest / signal - 0.5 * len(Y) * math.log(signal)
        likelihood -= 0.5 * np.linalg.slogdet(full)[1]
        likelihood += -SIGNAL[0] * math.log(signal) - SIGNAL[1] / signal
        middle = np.array([math.log(0.5 * math.sqrt(2))] * 2 + [NOISE[0]])
        spread = np.array([LENGTH_SPREAD] * 2 + [NOISE[1]])
        return float(likelihood - 0.5 * (((parameters - middle) / spread) ** 2).sum())

    process = GaussianProcess(GROUPS)
    distances = squared_distances(X, GROUPS).reshape(2, -1)
    one, other = np.array([-0.5, 0.3, -2.0]), np.array([0.7, -0.4, -5.0])
    losses = process.loss(one, distances, Y)[0] - process.loss(other, distances, Y)[0]
    assert losses == pytest.approx(density(other) - density(one), rel=1e-6)


def test_what_does_not_matter_gets_a_long_length_scale() -> None:
    rng = np.random.default_rng(3)
    x = rng.random((60, 2))
    process = GaussianProcess(np.array([0, 1]))
    process.fit(x, np.sin(6 * x[:, 0]), steps=30)
    assert process.parameters[1] > process.parameters[0] + 1.0


def test_noise_is_seen_as_noise() -> None:
    rng = np.random.default_rng(4)
    x = rng.random((80, 1))
    clean, noisy = GaussianProcess(np.array([0])), GaussianProcess(np.array([0]))
    clean.fit(x, np.sin(6 * x[:, 0]), steps=30)
    noisy.fit(x, np.sin(6 * x[:, 0]) + rng.normal(0, 0.5, 80), steps=30)
    assert noisy.parameters[-1] > clean.parameters[-1] + 2.0


def test_more_fits_start_from_the_last_parameters() -> None:
    process = GaussianProcess(GROUPS)
    process.fit(X, Y, steps=8)
    before = process.parameters.copy()
    process.fit(X[:6], Y[:6], steps=0)
    assert (process.parameters == before).all()
    assert process.posterior(NEW).mean == pytest.approx(direct(X[:6], Y[:6], NEW, before)[0], abs=1e-8)


@pytest.mark.parametrize("y", [np.zeros(12), np.array([0.0] * 11 + [1e3])])
def test_flat_and_spiked_targets_give_numbers(y: Floats) -> None:
    process = GaussianProcess(GROUPS)
    process.fit(X, y, steps=8)
    posterior = process.posterior(np.concatenate([X, NEW]))
    assert np.isfinite(posterior.mean).all()
    assert (posterior.variance > 0).all()


def test_rows_that_repeat_are_no_obstacle() -> None:
    process = GaussianProcess(GROUPS)
    process.fit(np.repeat(X[:3], 4, axis=0), np.arange(12.0), steps=8)
    assert np.isfinite(process.posterior(NEW).mean).all()


def test_the_kernel_and_its_slope() -> None:
    squared = np.array([0.0, 0.1, 1.0, 9.0])
    value, slope = matern(squared)
    assert value[0] == 1.0
    assert (np.diff(value) < 0).all()
    numeric = (matern(squared + 1e-6)[0] - value) / 1e-6
    assert slope == pytest.approx(numeric, rel=1e-2)
    assert between(X, NEW, np.array([2.0, 2.0, 0.5])) == pytest.approx(covariance(X, NEW, np.array([0.5, 2.0])))
