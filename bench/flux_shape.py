#!/usr/bin/env python3
"""Seconds and memory of a picture at FLUX.1-dev's real shape: quaver beside diffusers, in one run on one GPU.

    bench/flux_shape.py FOLDER --program build/cuda/bin/quaver [--candidate NAME=FOLDER[,FLAG...] ...] [--rounds 4] [--json FILE]

A folder that isn't there yet is made: random weights (the drawing is noise, the work is the real model's) in the shapes of
FLUX.1-dev's transformer (12 B), autoencoder, T5-XXL and CLIP-L, with the tokenizers and scheduler of the shapes model. diffusers
loads it in this process, eager and in bfloat16; each candidate (the folder itself is the first) is served by `quaver serve`. All
stay loaded, and draw in turn, round by round, so that what the machine does meanwhile meets all of them. The first round is for
warming up; the table has medians of the others. A step's seconds are those between the first and the last step; memory is the
allocator's peak, that of the card's own account beside it. --only-quaver leaves diffusers out.

Needs torch with CUDA, diffusers, transformers, accelerate.
"""
import argparse
import json
import statistics
import subprocess
import time
import urllib.request
from pathlib import Path

import torch
from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, FluxPipeline, FluxTransformer2DModel
from transformers import AutoTokenizer, CLIPTextConfig, CLIPTextModel, T5Config, T5EncoderModel

ROOT = Path(__file__).resolve().parent.parent
TOKENIZERS = ROOT / "models" / "shapes-flux"
PROMPT, GUIDANCE = "a red circle left of a green square", 3.5


def random_model(make, seed):
    """In bfloat16 on the GPU, with its own scheme's initial weights."""
    torch.manual_seed(seed)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = make().eval()
    torch.set_default_dtype(torch.float32)
    return model.requires_grad_(False)


def transformer(doubles, singles):
    return random_model(lambda: FluxTransformer2DModel(
        num_layers=doubles, num_single_layers=singles, in_channels=64, attention_head_dim=128, num_attention_heads=24,
        joint_attention_dim=4096, pooled_projection_dim=768, guidance_embeds=True, axes_dims_rope=(16, 56, 56)), 1)


def autoencoder():
    return random_model(lambda: AutoencoderKL(
        down_block_types=["DownEncoderBlock2D"] * 4, up_block_types=["UpDecoderBlock2D"] * 4,
        block_out_channels=[128, 256, 512, 512], layers_per_block=2, latent_channels=16, norm_num_groups=32, sample_size=1024,
        scaling_factor=0.3611, shift_factor=0.1159, use_quant_conv=False, use_post_quant_conv=False), 2)


def clip(layers):
    return random_model(lambda: CLIPTextModel(CLIPTextConfig(
        vocab_size=49408, hidden_size=768, intermediate_size=3072, num_hidden_layers=layers, num_attention_heads=12,
        max_position_embeddings=77, hidden_act="quick_gelu", projection_dim=768, bos_token_id=0, eos_token_id=2,
        pad_token_id=1)), 3)


def t5(layers):
    return random_model(lambda: T5EncoderModel(T5Config(
        vocab_size=32128, d_model=4096, d_kv=64, d_ff=10240, num_layers=layers, num_heads=64, feed_forward_proj="gated-gelu",
        relative_attention_num_buckets=32, relative_attention_max_distance=128, tie_word_embeddings=False)), 4)


def make_pipeline(arguments):
    return FluxPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler.from_pretrained(TOKENIZERS / "scheduler"), vae=autoencoder(),
        text_encoder=clip(arguments.clip_layers), tokenizer=AutoTokenizer.from_pretrained(TOKENIZERS / "tokenizer"),
        text_encoder_2=t5(arguments.t5_layers), tokenizer_2=AutoTokenizer.from_pretrained(TOKENIZERS / "tokenizer_2"),
        transformer=transformer(arguments.doubles, arguments.singles))


class Diffusers:
    """The pipeline in this process: the peer."""

    def __init__(self, pipeline):
        self.name, self.pipeline = "diffusers, eager, bf16", pipeline
        pipeline.set_progress_bar_config(disable=True)

    def draw(self, seed, arguments):
        ends = []

        def stepped(pipeline, step, timestep, tensors):
            torch.cuda.synchronize()
            ends.append(time.perf_counter())
            return tensors

        torch.cuda.reset_peak_memory_stats()
        began = time.perf_counter()
        self.pipeline(PROMPT, width=arguments.size, height=arguments.size, num_inference_steps=arguments.steps,
                      guidance_scale=GUIDANCE, max_sequence_length=512, callback_on_step_end=stepped,
                      generator=torch.Generator("cpu").manual_seed(seed))
        total = time.perf_counter() - began
        return {"seconds": total, "step": (ends[-1] - ends[0]) / (len(ends) - 1),
                "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}

    def stop(self):
        pass


class Quaver:
    """A server of one folder."""

    def __init__(self, name, program, folder, *flags):
        self.name = name
        command = [program, "serve", str(folder), "--device", "cuda", "--port", "0", "--disable-access-log", *flags]
        began = time.time()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        ready = next((line for line in self.process.stdout if line.startswith("ready: ")), None)
        if ready is None:
            raise SystemExit(f"{' '.join(command)} ended before it was ready")
        self.url = ready.split()[1].rstrip(",")
        print(f"{name}: ready after {time.time() - began:.1f} s", flush=True)

    def draw(self, seed, arguments):
        body = {"prompt": PROMPT, "seed": seed, "num_inference_steps": arguments.steps, "guidance_scale": GUIDANCE,
                "size": f"{arguments.size}x{arguments.size}", "max_sequence_length": 512, "output_format": "jpeg"}
        request = urllib.request.Request(self.url + "/images/generations", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as answer:
            metrics = json.load(answer)["metrics"]
        stages = metrics["stage_durations"]
        return {"seconds": sum(stages.values()), "step": stages["denoise"] / arguments.steps, "stages": stages,
                "allocated": metrics["peak_allocated_mb"] * 2 ** 20, "reserved": metrics["peak_memory_mb"] * 2 ** 20}

    def stop(self):
        self.process.terminate()
        self.process.wait()


def card_memory():
    """Bytes that each process holds on the card, by process id, as the driver counts."""
    listed = subprocess.run(["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"],
                            capture_output=True, text=True).stdout
    return listed.strip().splitlines()


def summary(name, runs):
    def median(key):
        return statistics.median(run[key] for run in runs)

    return {"name": name, "seconds": round(median("seconds"), 3), "step": round(median("step"), 4),
            "all_seconds": [round(run["seconds"], 3) for run in runs],
            "allocated_gib": round(max(run["allocated"] for run in runs) / 2 ** 30, 2),
            "reserved_gib": round(max(run["reserved"] for run in runs) / 2 ** 30, 2),
            "stages": runs[-1].get("stages")}


def print_table(rows):
    first = rows[0]
    print("\n| | seconds a picture | seconds a step | peak GiB, allocated (reserved) |\n|---|---|---|---|")
    for row in rows:
        print(f"| {row['name']} | {row['seconds']:.2f} ({first['seconds'] / row['seconds']:.2f}x) | {row['step']:.4f} | "
              f"{row['allocated_gib']:.1f} ({row['reserved_gib']:.1f}) |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--program", default=str(ROOT / "build" / "cuda" / "bin" / "quaver"))
    parser.add_argument("--candidate", action="append", default=[], metavar="NAME=FOLDER[,FLAG...]",
                        help="with flags of quaver serve: 'offloaded=FOLDER,--offload'")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=28)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--doubles", type=int, default=19)
    parser.add_argument("--singles", type=int, default=38)
    parser.add_argument("--clip-layers", type=int, default=12)
    parser.add_argument("--t5-layers", type=int, default=24)
    parser.add_argument("--make-only", action="store_true")
    parser.add_argument("--only-quaver", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    contestants, pipeline = [], None
    if not arguments.folder.exists():
        began = time.time()
        pipeline = make_pipeline(arguments)
        made = time.time()
        pipeline.save_pretrained(arguments.folder)
        print(f"{arguments.folder}: weights in {made - began:.1f} s, written in {time.time() - made:.1f} s", flush=True)
    if arguments.make_only:
        return
    if not arguments.only_quaver:
        pipeline = pipeline or FluxPipeline.from_pretrained(arguments.folder, torch_dtype=torch.bfloat16).to("cuda")
        contestants.append(Diffusers(pipeline))
    candidates = {"quaver, bf16": str(arguments.folder)} | dict(given.split("=", 1) for given in arguments.candidate)
    try:
        for name, given in candidates.items():
            contestants.append(Quaver(name, arguments.program, *given.split(",")))
        runs = {contestant.name: [] for contestant in contestants}
        for turn in range(arguments.rounds + 1):
            for contestant in contestants:
                run = contestant.draw(turn, arguments)
                print(f"round {turn}: {contestant.name}: {run['seconds']:.3f} s, {run['step']:.4f} s a step", flush=True)
                if turn > 0:
                    runs[contestant.name].append(run)
        print("held on the card (process, MiB):", "; ".join(card_memory()))
    finally:
        for contestant in contestants:
            contestant.stop()
    rows = [summary(name, of_one) for name, of_one in runs.items()]
    print_table(rows)
    if arguments.json:
        arguments.json.write_text(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__,
                                              "steps": arguments.steps, "size": arguments.size, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
