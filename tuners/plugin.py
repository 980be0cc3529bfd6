"""The built-in tuners, cost models and allocations, by name; each is imported on first use."""

from __future__ import annotations

from pegbox.hooks import hookimpl


@hookimpl
def pegbox_register_tuners() -> dict[str, str]:
    return {
        "bayes": "pegbox.tuners.bayes:BayesTuner",
        "random": "pegbox.tuners.random:RandomTuner",
        "grid": "pegbox.tuners.grid:GridTuner",
        "ga": "pegbox.tuners.ga:GATuner",
        "xgb": "pegbox.tuners.xgb:XGBTuner",
        "evolution": "pegbox.tuners.evolution:EvolutionTuner",
        "droplet": "pegbox.tuners.droplet:DropletTuner",
        "optuna_tpe": "pegbox.tuners.optimizers.optuna:OptunaTPETuner",
        "optuna_gp": "pegbox.tuners.optimizers.optuna:OptunaGPTuner",
        "optuna_cmaes": "pegbox.tuners.optimizers.optuna:OptunaCMAESTuner",
        "optuna_nsga2": "pegbox.tuners.optimizers.optuna:OptunaNSGA2Tuner",
        "nevergrad": "pegbox.tuners.optimizers.nevergrad:NevergradTuner",
        "forest": "pegbox.tuners.optimizers.forest:ForestTuner",
        "kernel_tuner": "pegbox.tuners.optimizers.kernel_tuner:KernelTunerTuner",
        "smac": "pegbox.tuners.optimizers.smac:SmacTuner",
    }


@hookimpl
def pegbox_register_cost_models() -> dict[str, str]:
    return {
        "xgboost": "pegbox.tuners.cost_models.xgboost:XGBoostCostModel",
        "ridge": "pegbox.tuners.cost_models.ridge:RidgeCostModel",
    }


@hookimpl
def pegbox_register_allocations() -> dict[str, str]:
    return {
        "gradient": "pegbox.search:GradientAllocation",
        "round_robin": "pegbox.search:RoundRobin",
    }
