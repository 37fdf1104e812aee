#!/usr/bin/env python3
"""What diffusers computes with models/shapes-flux: float32, on the CPU, from fixed noise.

  make_shapes_flux.py   writes shapes-flux.safetensors beside this script; run it anew when the model changes

For the prompts n = 0, 1, 2 (they, steps, guidance and size are in the file's metadata): n.clip_ids, n.t5_ids, n.clip_pooled,
n.t5_hidden, n.latents_initial (packed), n.timesteps and n.sigmas of the schedule, n.velocity_step0 (the transformer's first output),
n.latents_final (packed), n.image [3, height, width] in 0..1.
Made with torch 2.13.0, transformers 5.24 and diffusers 0.42.1.
"""
import json, pathlib
import torch
from diffusers import FluxPipeline
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent
PROMPTS = ["a red circle left of a green square on a white background",
           "a large yellow star above a small blue ring on a black background",
           "a purple triangle in the top left corner on a beige background"]
STEPS, GUIDANCE, LENGTH, SIDE = 20, 3.5, 512, 128


def ids_of(tokenizer, prompt, length):
    return tokenizer(prompt, padding="max_length", max_length=length, truncation=True, return_tensors="pt").input_ids.int()


@torch.no_grad()
def run(pipe, number, prompt):
    velocities = []
    hook = pipe.transformer.register_forward_hook(lambda _, args, out: velocities.append(out[0]))
    noise = torch.randn(1, (SIDE // 16) ** 2, 64, generator=torch.Generator().manual_seed(number))
    hidden, pooled, _ = pipe.encode_prompt(prompt, prompt, max_sequence_length=LENGTH)
    final = pipe(prompt_embeds=hidden, pooled_prompt_embeds=pooled, latents=noise.clone(), height=SIDE, width=SIDE,
                 num_inference_steps=STEPS, guidance_scale=GUIDANCE, output_type="latent").images
    hook.remove()
    latents = pipe._unpack_latents(final, SIDE, SIDE, pipe.vae_scale_factor)
    decoded = pipe.vae.decode(latents / pipe.vae.config.scaling_factor + pipe.vae.config.shift_factor).sample
    return {"clip_ids": ids_of(pipe.tokenizer, prompt, 77), "t5_ids": ids_of(pipe.tokenizer_2, prompt, LENGTH),
            "clip_pooled": pooled, "t5_hidden": hidden, "latents_initial": noise, "timesteps": pipe.scheduler.timesteps.float(),
            "sigmas": pipe.scheduler.sigmas.float(), "velocity_step0": velocities[0], "latents_final": final,
            "image": (decoded[0] / 2 + 0.5).clamp(0, 1)}


if __name__ == "__main__":
    pipe = FluxPipeline.from_pretrained(HERE.parents[2] / "models/shapes-flux", dtype=torch.float32)
    tensors = {f"{n}.{key}": value.contiguous() for n, prompt in enumerate(PROMPTS) for key, value in run(pipe, n, prompt).items()}
    facts = dict(prompts=PROMPTS, steps=STEPS, guidance=GUIDANCE, max_sequence_length=LENGTH, size=[SIDE, SIDE], dtype="float32")
    save_file(tensors, HERE / "shapes-flux.safetensors", metadata={"facts": json.dumps(facts)})
