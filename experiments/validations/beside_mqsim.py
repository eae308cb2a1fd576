"""Real drives: our predictions beside those of MQSim and of the counting simulator, as a set."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import click

from experiments.mqsim.options import MQSIM
from experiments.registry import Made, Part, Request, Set, option
from experiments.validations import beside_mqsim_page as page
from experiments.validations.other_simulators import SIMULATORS, beside, scales
from experiments.validations.real_drives import DRIVES, RealDrive
from flashwright._core import InputError
from flashwright.runs import sha256_of_file


@dataclass(frozen=True)
class Compared(Part):
    """A drive that all three are asked for."""

    drive: RealDrive


def _make(request: Request[Compared]) -> Made:
    program, profiles = request.options["mqsim"], request.options["profiles_of"]
    if not program or not profiles:
        raise InputError(
            "beside-mqsim: give --mqsim PATH, the program, and --profiles-of DIR, the folder that "
            "`validate-drives --profiles` wrote"
        )
    where, folder = Path(program).resolve(), Path(profiles)
    threads = os.cpu_count() or 1
    found = [beside(part.drive, where, folder, threads) for part in request.parts]
    scale = scales(where, folder)
    figures = [
        {
            "drive": one.drive.name,
            "fits": [
                {
                    "simulator": f.simulator,
                    "over_provisioning": f.setting.spare,
                    "whole_queue": f.setting.whole_queue,
                    "cleans_below": f.setting.cleans_below,
                    "factor_small": f.factors[True],
                    "factor_zones": f.factors[False],
                }
                for f in one.fits
            ],
            "rows": [
                {
                    "row": row.name,
                    "measured_mib_s": row.steady_mib_s,
                    **{s: one.predicted[s][row] for s in SIMULATORS},
                }
                for row in one.unseen
            ],
        }
        for one in found
    ]
    document = {"drives": figures, "scales": [list(one) for one in scale]}
    digest = sha256_of_file(where)
    return Made(page.document(found, request.command, digest[:16], scale), document)


PARTS = tuple(Compared(f"beside-{one.name}", "", one.title, one) for one in DRIVES)
SET = Set(
    "beside-mqsim",
    "real drives: errors of our predictions beside those of MQSim and of counting",
    "MQSim, built; half an hour",
    PARTS,
    _make,
    options=(
        MQSIM,
        option("--profiles-of", "", click.STRING, "profiles that validate-drives --profiles wrote"),
    ),
)
