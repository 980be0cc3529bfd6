"""The Gaussian process against sums written out in full."""

import math

import numpy as np
import pytest

from pegbox.search.protocols import Floats
from pegbox.tuners.surrogates.gaussian_process import (
    EXACT,
    LENGTH,
    LENGTH_SPREAD,
    NOISE,
    SIGNAL,
    SLOPE,
    GaussianProcess,
    NoisePrior,
    Points,
    covariances,
    matern,
    squared_distances,
)

GROUPS = np.array([0, 0, 1])
X = np.random.default_rng(0).random((12, 3))
Y = np.sin(5 * X[:, 0]) + X[:, 2]
NEW = np.random.default_rng(1).random((5, 3))


def fitted_to_all() -> GaussianProcess:
    process = GaussianProcess(GROUPS)
    process.fit(X, Y, steps=0)
    return process


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
    linear = np.outer(X[:, 1], X[:, 1])
    loss, gradient = process.loss(parameters, distances, linear, Y)
    for place in range(3):
        step = np.zeros(3)
        step[place] = 1e-5
        up, down = (process.loss(parameters + sign * step, distances, linear, Y)[0] for sign in (1, -1))
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
        middle = np.array([math.log(LENGTH * math.sqrt(2))] * 2 + [NOISE[0]])
        spread = np.array([LENGTH_SPREAD] * 2 + [NOISE[1]])
        return float(likelihood - 0.5 * (((parameters - middle) / spread) ** 2).sum())

    process = GaussianProcess(GROUPS)
    distances = squared_distances(X, GROUPS).reshape(2, -1)
    one, other = np.array([-0.5, 0.3, -2.0]), np.array([0.7, -0.4, -5.0])
    none = np.zeros((12, 12))
    losses = process.loss(one, distances, none, Y)[0] - process.loss(other, distances, none, Y)[0]
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


@pytest.mark.parametrize("noise", [NOISE, EXACT])
def test_the_noise_that_is_learned_stays_above_its_least(noise: NoisePrior) -> None:
    x = np.linspace(0, 1, 40)[:, None]
    process = GaussianProcess(np.array([0]), noise=noise)
    process.fit(x, 3.0 * x[:, 0], steps=60)
    assert noise.least <= process.parameters[-1] < noise.mean


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
    inverse = np.array([2.0, 2.0, 0.5])
    assert covariances(X * inverse, NEW * inverse) == pytest.approx(covariance(X, NEW, np.array([0.5, 2.0])))


# --- trends -----------------------------------------------------------------------------------------------------------


TREND = np.random.default_rng(2).normal(size=(12, 1))
NEW_TREND = np.random.default_rng(3).normal(size=(5, 1))


def test_a_trend_is_a_linear_kernel_around_the_slope_that_is_expected() -> None:
    process = GaussianProcess(GROUPS, trends=1)
    process.fit(np.hstack([X, TREND]), Y, steps=8)
    lengths, noise = np.exp(process.parameters[:-1]), math.exp(process.parameters[-1])
    slope, spread = SLOPE
    full = covariance(X, X, lengths) + spread**2 * TREND @ TREND.T + noise * np.eye(12)
    inverse = np.linalg.inv(full)
    rest = Y - slope * TREND[:, 0]
    middle = inverse.sum(axis=0) @ rest / inverse.sum()
    cross = covariance(NEW, X, lengths) + spread**2 * NEW_TREND @ TREND.T
    signal = (2 * SIGNAL[1] + (rest - middle) @ inverse @ (rest - middle)) / (12 + 2 * SIGNAL[0])
    own = 1.0 + spread**2 * NEW_TREND[:, 0] ** 2
    posterior = process.posterior(np.hstack([NEW, NEW_TREND]))
    mean = middle + slope * NEW_TREND[:, 0] + cross @ inverse @ (rest - middle)
    assert posterior.mean == pytest.approx(mean, abs=1e-8)
    assert process.mean(np.hstack([NEW, NEW_TREND])) == pytest.approx(mean, abs=1e-6)
    reduction = np.einsum("ij,jk,ik->i", cross, inverse, cross)
    assert posterior.variance == pytest.approx(signal * (own - reduction), abs=1e-8)


def test_before_the_first_row_the_trends_are_all_there_is() -> None:
    process = GaussianProcess(GROUPS, trends=1)
    process.fit(np.empty((0, 4)), np.empty(0), steps=0)
    new = np.hstack([NEW, NEW_TREND])
    posterior = process.posterior(new)
    assert posterior.mean == pytest.approx(SLOPE[0] * NEW_TREND[:, 0])
    assert process.mean(new) == pytest.approx(SLOPE[0] * NEW_TREND[:, 0], abs=1e-6)
    assert np.argsort(posterior.variance).tolist() == np.argsort(np.abs(NEW_TREND[:, 0])).tolist()
    assert (posterior.observe(1).variance < posterior.variance).all()


@pytest.mark.parametrize("sign", [1.0, 0.0, -1.0])
def test_a_trend_is_followed_as_far_as_it_turns_out_to_be_true(sign: float) -> None:
    rng = np.random.default_rng(5)
    x, new = rng.normal(size=(60, 2)), rng.normal(size=(40, 2))
    # The column with a length scale says nothing; the trend says all, nothing, or the contrary.
    process = GaussianProcess(np.array([0]), trends=1)
    process.fit(x, sign * x[:, 1] + 0.05 * rng.normal(size=60), steps=20)
    slope = np.polyfit(new[:, 1], process.mean(new), 1)[0]
    assert slope == pytest.approx(sign, abs=0.15)


def test_with_nothing_but_trends() -> None:
    process = GaussianProcess(np.empty(0, dtype=np.intp), trends=1)
    process.fit(TREND, 3.0 * TREND[:, 0], steps=8)
    assert process.mean(NEW_TREND) == pytest.approx(3.0 * NEW_TREND[:, 0], abs=0.3)
    alone = GaussianProcess(np.empty(0, dtype=np.intp))
    alone.fit(np.empty((4, 0)), np.arange(4.0), steps=8)
    assert alone.mean(np.empty((2, 0))) == pytest.approx([1.5, 1.5])


def test_two_trends_that_agree_say_no_more_than_one() -> None:
    one, two = GaussianProcess(GROUPS, trends=1), GaussianProcess(GROUPS, trends=2)
    one.fit(np.hstack([X, TREND]), Y, steps=0)
    two.fit(np.hstack([X, TREND, TREND]), Y, steps=0)
    single, double = (np.hstack([NEW, *[NEW_TREND] * count]) for count in (1, 2))
    assert two.posterior(double).mean == pytest.approx(one.posterior(single).mean)
    assert two.posterior(double).variance == pytest.approx(one.posterior(single).variance)


def test_points_alone_are_as_among_others() -> None:
    points = Points(X, TREND)
    assert points.covariance(points)[3] == pytest.approx(points.only(3).covariance(points)[0])
    assert points.variance() == pytest.approx(np.diag(points.covariance(points)), abs=1e-6)


def test_improvements_are_expectations() -> None:
    from scipy.integrate import quad

    posterior = fitted_to_all().posterior(NEW)
    found = np.exp(posterior.improvements(0.7)) / math.sqrt(2.0 * math.pi)
    for mean, variance, improvement in zip(posterior.mean, posterior.variance, found, strict=True):
        deviation = math.sqrt(variance)

        def weighted(value: float, mean: float = mean, deviation: float = deviation) -> float:
            density = math.exp(-0.5 * ((value - mean) / deviation) ** 2) / (deviation * math.sqrt(2.0 * math.pi))
            return (0.7 - value) * density

        expected = quad(weighted, min(mean, 0.7) - 12.0 * deviation, 0.7, points=[mean] if mean < 0.7 else None)[0]
        assert improvement == pytest.approx(expected, rel=1e-4)


def test_improvements_far_from_the_target_keep_their_order() -> None:
    process = GaussianProcess(np.zeros(1, dtype=np.intp), noise=EXACT)
    process.fit(np.linspace(0.0, 1.0, 20)[:, None], np.linspace(0.0, 1.0, 20), steps=12)
    posterior = process.posterior(np.linspace(0.0, 1.0, 60)[:, None])
    for below in (1.0, 30.0, 1e4, 1e6):
        far = posterior.improvements(-below)
        assert np.isfinite(far).all()
        assert np.ptp(far) > 0
    assert np.isfinite(posterior.improvements(1e3)).all()
