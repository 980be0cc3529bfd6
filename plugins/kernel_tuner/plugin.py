"""The built-in reader of other tools' results, registered as any plugin registers its own."""

from __future__ import annotations

from pegbox.hooks import hookimpl


@hookimpl
def pegbox_register_results_readers() -> dict[str, str]:
    return {"kernel_tuner": "pegbox.plugins.kernel_tuner.reader:KernelTunerReader"}
