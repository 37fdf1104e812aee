"""Sigmas of diffusers' FlowMatchEulerDiscreteScheduler as its FLUX and Ovis pipelines ask for them, and seeded noise.

    python make_schedules.py        (diffusers 0.42.1, torch 2.13 CPU)
"""
import json
from pathlib import Path

import numpy as np
import torch
from diffusers import FlowMatchEulerDiscreteScheduler
from diffusers.pipelines.flux.pipeline_flux import calculate_shift

DEV = dict(use_dynamic_shifting=True, base_shift=0.5, max_shift=1.15, base_image_seq_len=256, max_image_seq_len=4096, shift=3.0)
CASES = [(DEV, 20, 64), (DEV, 28, 4096), (DEV, 1, 256), (DEV, 50, 16384), (dict(DEV, time_shift_type="linear"), 12, 1024),
         (dict(DEV, shift_terminal=0.02), 9, 1024), (dict(use_dynamic_shifting=False, shift=1.0), 4, 4096),
         (dict(use_dynamic_shifting=False, shift=3.0), 7, 256)]


def sigmas_of(settings, steps, tokens):
    scheduler = FlowMatchEulerDiscreteScheduler(**settings)
    mu = calculate_shift(tokens, 256, 4096, 0.5, 1.15)
    scheduler.set_timesteps(sigmas=np.linspace(1.0, 1 / steps, steps), mu=mu if settings["use_dynamic_shifting"] else None)
    return scheduler.sigmas.tolist()


schedules = [{"settings": s, "steps": n, "tokens": t, "sigmas": sigmas_of(s, n, t)} for s, n, t in CASES]
noise = [{"seed": seed, "shape": shape, "values": torch.randn(shape, generator=torch.Generator().manual_seed(seed)).flatten().tolist()}
         for seed, shape in [(0, [1, 2, 2, 2]), (7, [1, 4, 4, 2]), (2**63 - 1, [1, 1, 3, 5]), (2**32 - 1, [1, 1, 1, 3])]]
Path(__file__).with_name("schedules.json").write_text(json.dumps({"schedules": schedules, "noise": noise}, indent=0) + "\n")
