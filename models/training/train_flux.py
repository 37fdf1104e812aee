"""Train shapes-flux: first the image autoencoder, then text encoders and transformer together.

    python train_flux.py --out checkpoint --vae-seconds 100 --seconds 420
    python train_flux.py --out checkpoint --resume checkpoint --vae-seconds 0 --seconds 300       # go on from there

Needs a GPU for a useful result (`--device cpu --batch 4 --pool 500` is a smoke run) and ../shapes-flux/tokenizer*
(make_tokenizers.py). Every batch is drawn on the device; no data set is needed. `checkpoint` then holds the averaged
weights in bf16, a sheet of samples, and the score; export_flux.py makes the diffusers folder from it.
A small head beside T5 learns to read each shape's place, size, colour and kind off the shape's noun (`--binding-weight`):
it teaches T5 to bind words to shapes, in their order, and is not exported.
"""
import argparse
import copy
import json
import os
import re
import time
from multiprocessing import Pool
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
import numpy as np
import torch
import torch.nn.functional as F

import shapes_world as world
from common import Autoencode, Clock, Stepper, autoencoder_loss, image_grid, in_bf16, load_modules, save_modules
from eval_flux import evaluate
from flux_parts import image_ids, load_tokenizers, make_pipeline, make_text_encoders, make_transformer, make_vae, pack

HERE = Path(__file__).resolve().parent
TEXT_SLOTS = 32                                 # tokens kept per prompt; the longest of the grammar has 22
# image size, T5 length, share of the batch size, how often
VARIANTS = [((128, 128), 64, 1.0, 0.44), ((128, 128), 128, 1.0, 0.10), ((128, 128), 256, 0.5, 0.05), ((128, 128), 512, 0.5, 0.15),
            ((64, 64), 64, 1.0, 0.08), ((128, 192), 64, 1.0, 0.09), ((192, 128), 64, 1.0, 0.09)]
LATE_VARIANTS = [(size, length, batch, often * (3 if length == 512 else 1)) for size, length, batch, often in VARIANTS]


# -------------------------------------------------------------------------------------------------- data

def noun_tokens(prompt, spec, encoding):
    """Index of the (last) T5 token of each shape's noun, in the order of `spec.shapes`; -1 for an absent second shape."""
    nouns = list(re.finditer(r"\b(%s)\b" % "|".join(world.KINDS), prompt))
    assert [n[0] for n in nouns] == [kind for kind, _, _ in spec.shapes], prompt
    return [encoding.char_to_token(n.end() - 1) for n in nouns] + [-1] * (2 - len(nouns))


def make_scenes(job):
    seed, count = job
    rng = np.random.default_rng(seed)
    clip_tokenizer, t5_tokenizer = load_tokenizers(HERE.parent / "shapes-flux")
    prompts, specs, scenes = [], [], []
    for _ in range(count):
        prompt, spec, scene = world.sample_scene(rng)
        prompts.append(prompt)
        specs.append(spec)
        told = [bool(spec.relation or spec.position), bool(spec.shapes[0][2])]       # place, size
        scenes.append([scene.background, *scene.kind, *scene.colour, *scene.x, *scene.y, *scene.radius, *told])
    clip = clip_tokenizer(prompts, padding="max_length", max_length=77, truncation=True).input_ids
    t5 = t5_tokenizer(prompts, padding="max_length", max_length=TEXT_SLOTS, truncation=True)
    nouns = [noun_tokens(*facts) for facts in zip(prompts, specs, t5.encodings)]
    return np.array(scenes, np.float32), np.array(clip, np.int16), np.array(t5.input_ids, np.int16), np.array(nouns, np.int16)


class Scenes:
    """A pool of scenes with tokenized prompts, on the device."""

    def __init__(self, count, device, seed):
        workers = max(1, min(14, (os.cpu_count() or 2) - 1))
        jobs = [(seed * 1000 + i, count // workers) for i in range(workers)]
        with Pool(workers) as pool:
            parts = pool.map(make_scenes, jobs)
        scenes, clip, t5, nouns = (torch.from_numpy(np.concatenate(p)).to(device) for p in zip(*parts))
        self.clip, self.t5, self.nouns, self.device, self.count = clip, t5, nouns, device, len(clip)
        self.background, self.kind, self.colour = scenes[:, 0].long(), scenes[:, 1:3], scenes[:, 3:5].long()
        self.x, self.y, self.radius = scenes[:, 5:7], scenes[:, 7:9], scenes[:, 9:11]
        self.place_told, self.size_told = scenes[:, 11], scenes[:, 12]
        self.background_rgb = torch.tensor(world.BACKGROUND_RGB, device=device)
        self.colour_rgb = torch.tensor(world.COLOUR_RGB, device=device)

    def draw(self, index, guidance, size):
        """Images [B,3,H,W] in -1..1 of the scenes, jittered as their guidance says."""
        b, device = len(index), self.device
        amount = world.jitter_scale(guidance)[:, None]
        noise = lambda *s: (torch.rand(b, *s, device=device) * 2 - 1)
        grid = [torch.arange(n, device=device, dtype=torch.float32) + 0.5 for n in size]
        image = world.render(
            self.background_rgb[self.background[index]] + noise(3) * amount * world.COLOUR_JITTER,
            self.kind[index], self.colour_rgb[self.colour[index]] + noise(2, 3) * amount[..., None] * world.COLOUR_JITTER,
            self.x[index] + noise(2) * amount * world.PLACE_JITTER, self.y[index] + noise(2) * amount * world.PLACE_JITTER,
            self.radius[index] * (1 + noise(2) * amount * world.SIZE_JITTER), *size, xp=torch, grid=grid)
        return image.clamp(0, 1).permute(0, 3, 1, 2).contiguous() * 2 - 1

    def random(self, count):
        return torch.randint(self.count, (count,), device=self.device), 1 + 4 * torch.rand(count, device=self.device)


# -------------------------------------------------------------------------------------------------- autoencoder

def train_vae(vae, scenes, seconds, batch, device, log, graphs, decoder_only=False):
    vae.train()
    vae.encoder.requires_grad_(not decoder_only)
    model, cuda = Autoencode(vae).to(memory_format=torch.channels_last), device == "cuda"
    sizes = [(64, 64)] * 5 + [(128, 128)] * 2 + [(128, 192), (192, 128)]
    clock = Clock(seconds, peak=1.2e-3, warmup_steps=200)

    def loss(variant):
        size, count = variant
        pixels = scenes.draw(*scenes.random(count), size)
        return autoencoder_loss(*in_bf16(model, pixels.to(memory_format=torch.channels_last), bf16=cuda), pixels)

    step, n = Stepper(vae.parameters(), loss, decay=0.995, weight_decay=0.0, graphs=graphs), 0
    while not clock.over():
        size = sizes[n % len(sizes)]
        value = step((size, max(1, batch * 64 * 64 // (size[0] * size[1]))), clock.rate())
        n += 1
        if n % 16 == 0 and cuda:
            torch.cuda.synchronize()                                # keeps the clock honest
        if n % 500 == 0:
            log(f"vae step {n} {clock.elapsed():.0f} s loss {value.item():.4f}")
    step.load_average()
    vae.eval().requires_grad_(False)
    with torch.no_grad():
        pixels = scenes.draw(*scenes.random(min(2048, batch * 4)), (128, 128))
        latents = torch.cat([vae.encode(i).latent_dist.mean for i in pixels.split(128)])
        decoded = torch.cat([vae.decode(l).sample for l in latents[:256].split(128)])
    facts = {} if decoder_only else {"scaling_factor": round(1 / latents.std().item(), 6), "shift_factor": round(latents.mean().item(), 6)}
    error = F.mse_loss(decoded.clamp(-1, 1), pixels[:256]).item() / 4
    log(f"vae: {n} steps, PSNR {-10 * np.log10(error):.2f} dB, {facts}, "
        f"std per channel {[round(v, 2) for v in latents.std(dim=(0, 2, 3)).tolist()]}")
    return facts


# -------------------------------------------------------------------------------------------------- transformer

class LatentBank:
    """Encoded drawings of one image size, packed as tokens, with each one's scene and guidance; renewed bit by bit."""

    def __init__(self, count, size, scenes, vae, facts, device):
        self.size, self.scenes, self.vae, self.facts, self.count = size, scenes, vae, facts, count
        self.latents = torch.empty(count, size[0] // 16 * (size[1] // 16), 64, dtype=torch.bfloat16, device=device)
        self.scene = torch.zeros(count, dtype=torch.long, device=device)
        self.guidance = torch.zeros(count, device=device)
        self.ids = image_ids(size[0] // 16, size[1] // 16, device)
        self.device, self.next = device, 0
        while self.next < count:
            self.renew()
        self.next = 0

    @torch.no_grad()
    def renew(self, count=512):
        if self.next >= self.count:
            self.next = 0
        where = slice(self.next, min(self.next + count, self.count))
        index, guidance = self.scenes.random(where.stop - where.start)
        latents = self.vae.encode(self.scenes.draw(index, guidance, self.size).to(self.vae.dtype)).latent_dist.mean.float()
        self.latents[where] = pack((latents - self.facts["shift_factor"]) * self.facts["scaling_factor"]).to(torch.bfloat16)
        self.scene[where], self.guidance[where] = index, guidance
        self.next = where.stop


class ShapeReader(torch.nn.Module):
    """A linear head that reads a shape off T5's hidden state at the shape's noun: x, y, radius, colour, kind.

    FLUX's transformer sees text tokens without places, so only T5 can tell it which words belong together and which came
    first. The denoising loss alone hardly asks T5 for that; this head does."""

    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, 3 + len(world.COLOURS) + len(world.KINDS))

    def forward(self, text, nouns):
        return self.linear(text.gather(1, nouns.clamp(min=0)[..., None].expand(-1, -1, text.shape[-1])))

    @staticmethod
    def loss(read, scenes, scene, dropped):
        """-> the error, and of how many pairs it reads the order right, of how many"""
        place, colour, kind = read.float().split([3, len(world.COLOURS), len(world.KINDS)], dim=-1)
        there = (scenes.nouns[scene] >= 0) & ~dropped
        truth = torch.stack([(scenes.x[scene] - 0.5) / world.PAIR_OFFSET, (scenes.y[scene] - 0.5) / world.PAIR_OFFSET,
                             (scenes.radius[scene] - world.SIZE_THRESHOLD) / 0.04], dim=-1)
        place_told, size_told = scenes.place_told[scene][:, None], scenes.size_told[scene][:, None]
        named = lambda logits, index: F.cross_entropy(logits.flatten(0, 1), index.flatten(), reduction="none").view_as(there)
        error = ((place - truth).square() * torch.stack([place_told, place_told, size_told], dim=-1)).sum(-1) \
            + named(colour, scenes.colour[scene]) + named(kind, scenes.kind[scene].long().clamp(min=0))
        pair = there.all(dim=1) & (place_told[:, 0] > 0)
        apart, seen = (v[:, 0, :2] - v[:, 1, :2] for v in (truth, place))
        along = apart.abs().argmax(dim=1, keepdim=True)             # 0: side by side, 1: one above the other
        right = pair & (apart.gather(1, along) * seen.gather(1, along) > 0)[:, 0]
        return (error * there).sum() / there.sum().clamp(min=1), right.sum(), pair.sum()


@torch.no_grad()
def make_directional(t5):
    """Let T5's first head look at the few words after each word, and its second at the few before it."""
    bias = t5.encoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight        # [buckets, heads]
    after, falling = len(bias) // 2, 4 - 0.5 * torch.arange(7.0)    # bucket d: d words before; after + d: d words after
    bias[:, :2] = -4
    bias[after + 1:after + 8, 0] = falling
    bias[1:8, 1] = falling


class ReadText(torch.nn.Module):
    """T5 and the reader as one module: a mask of zeros (the form that a CUDA graph can capture) and token ids -> both's results."""

    def __init__(self, t5, reader):
        super().__init__()
        self.t5, self.reader = t5, reader

    def forward(self, mask, t5_ids, nouns):
        text = self.t5(t5_ids, attention_mask=mask).last_hidden_state
        return text, self.reader(text, nouns)


def train_fresh_t5(t5, old, reader, seconds, scenes, args, log):
    """Teach `t5` to give the `old` encoder's hidden states, which the transformer can read, and to know the shapes."""
    device, old = args.device, old.to(torch.bfloat16 if args.device == "cuda" else torch.float32)
    model, tally, clock, n = ReadText(t5, reader).train(), torch.zeros(4, device=device), Clock(seconds, peak=1.5e-3), 0

    def loss(variant):
        length, b = variant
        scene = torch.randint(scenes.count, (b,), device=device)
        ids = F.pad(scenes.t5[scene].long(), (0, length - TEXT_SLOTS))
        mask = torch.zeros(1, 1, length, length, device=device)
        with torch.no_grad():
            wanted = old(ids, attention_mask=mask.to(old.dtype)).last_hidden_state.float()
        text, read = in_bf16(model, mask, ids, scenes.nouns[scene].long(), bf16=device == "cuda")
        error, right, pairs = ShapeReader.loss(read, scenes, scene, torch.zeros(b, 1, dtype=torch.bool, device=device))
        apart = F.mse_loss(text.float(), wanted)
        tally.copy_(torch.stack([apart.detach(), error.detach(), right, pairs]))
        return apart + args.binding_weight * error

    step = Stepper(model.parameters(), loss, decay=0.99, graphs=args.graphs)
    while not clock.over():
        step((512, max(1, args.batch // 2)) if n % 6 == 5 else (64, args.batch), clock.rate())
        n += 1
        if n % 64 == 0 and device == "cuda":
            torch.cuda.synchronize()                                # keeps the clock honest
        if n % 500 == 0:
            log("t5 step {} {:.0f} s: squared distance to the old one {:.4f}, binding {:.4f}, order {:.0f} of {:.0f}".format(
                n, clock.elapsed(), *tally.tolist()))
    step.load_average()


class Denoise(torch.nn.Module):
    """Text encoders and transformer as one module: token ids and noisy latents -> velocity, and what the reader reads."""

    def __init__(self, clip, t5, transformer, reader):
        super().__init__()
        self.clip, self.t5, self.transformer, self.reader = clip, t5, transformer, reader
        # FluxTransformer2DModel rounds time and guidance to the data's type; in bf16 that is too coarse to learn from
        self.hook = transformer.time_text_embed.register_forward_pre_hook(lambda _, args: (*self.exact, args[2]))

    def forward(self, noisy, t, guidance, clip_ids, t5_ids, ids, nouns):
        self.exact = (t * 1000, guidance * 1000)
        new = {"device": noisy.device, "dtype": noisy.dtype}
        n, length = clip_ids.shape[1], t5_ids.shape[1]
        # the masks that the encoders would make themselves, in a form that a CUDA graph can capture
        causal = torch.full((n, n), torch.finfo(noisy.dtype).min, **new).triu(1)[None, None]
        pooled = self.clip(clip_ids, attention_mask=causal).pooler_output
        text = self.t5(t5_ids, attention_mask=torch.zeros(1, 1, length, length, **new)).last_hidden_state
        velocity = self.transformer(
            hidden_states=noisy, timestep=t, guidance=guidance, pooled_projections=pooled, encoder_hidden_states=text,
            img_ids=ids, txt_ids=torch.zeros(length, 3, **new)).sample
        return velocity, self.reader(text, nouns)


def train_transformer(clip, t5, transformer, reader, vae, facts, scenes, bank_size, args, log, checkpoint):
    device, batch, began = args.device, args.batch, time.time()
    encoder = copy.deepcopy(vae).to(torch.bfloat16 if device == "cuda" else torch.float32, memory_format=torch.channels_last)
    shares = {(128, 128): 1.0, (64, 64): 0.2, (128, 192): 0.25, (192, 128): 0.25}
    banks = {size: LatentBank(max(8, int(bank_size * share)), size, scenes, encoder, facts, device)
             for size, share in shares.items()}
    log(f"latent banks filled in {time.time() - began:.0f} s")
    clip_tokenizer, t5_tokenizer = load_tokenizers(HERE.parent / "shapes-flux")
    empty_clip = torch.tensor(clip_tokenizer("", padding="max_length", max_length=77).input_ids, device=device)
    empty_t5 = torch.tensor(t5_tokenizer("", padding="max_length", max_length=TEXT_SLOTS).input_ids, device=device)

    def loss(variant):
        size, length, share, _ = variant
        bank, b = banks[size], max(1, int(batch * share))
        row = torch.randint(bank.count, (b,), device=device)
        latents, scene = bank.latents[row].float(), bank.scene[row]
        drop = (torch.rand(b, device=device) < 0.1)[:, None]
        clip_ids = torch.where(drop, empty_clip, scenes.clip[scene].long())
        t5_ids = F.pad(torch.where(drop, empty_t5, scenes.t5[scene].long()), (0, length - TEXT_SLOTS))
        t = torch.sigmoid(torch.randn(b, device=device))            # logit-normal, one in four uniform,
        t = torch.where(torch.rand(b, device=device) < 0.25, torch.rand(b, device=device), t)
        t = 2 * t / (1 + t)                                         # then shifted towards noise, where the layout is made
        noise = torch.randn_like(latents)
        noisy = latents + t[:, None, None] * (noise - latents)
        velocity, read = in_bf16(model, noisy, t, bank.guidance[row], clip_ids, t5_ids, bank.ids, scenes.nouns[scene].long(),
                                 bf16=device == "cuda")
        error, right, pairs = ShapeReader.loss(read, scenes, scene, drop)
        tally.add_(torch.stack([error.detach(), torch.ones_like(error), right, pairs]))
        return F.mse_loss(velocity.float(), noise - latents) + args.binding_weight * error

    tally = torch.zeros(4, device=device)       # the reader's error, steps, pairs with the order right, pairs
    model = Denoise(clip, t5, transformer, reader).train()
    parameters = list(model.parameters())
    step = Stepper(parameters, loss, decay=args.decay, graphs=args.graphs)
    if step.graphs:
        for variant in VARIANTS:
            step(variant, 0.0)
        torch.cuda.synchronize()
        tally.zero_()
        log(f"CUDA graphs of {len(VARIANTS)} variants ready after {time.time() - began:.0f} s")
    clock, rng, n, saved, sums = Clock(args.seconds, args.rate, args.warmup), np.random.default_rng(1), 0, time.time(), {}
    while not clock.over():
        table = VARIANTS if clock.progress() < 0.8 else LATE_VARIANTS
        weights = np.array([v[3] for v in table])
        variant = VARIANTS[int(rng.choice(len(table), p=weights / weights.sum()))]
        value = step(variant, clock.rate())
        sums.setdefault(variant[:2], []).append(value.clone())
        n += 1
        if n % 8 == 0:
            banks[variant[0]].renew(128 if device == "cuda" else 4)
        if n % 64 == 0 and device == "cuda":
            torch.cuda.synchronize()                                # keeps the clock honest
        if n % 500 == 0:
            means = {str(k): round(torch.stack(v).mean().item(), 4) for k, v in sums.items()}
            error, steps, right, pairs = tally.tolist()
            log(f"step {n} {clock.elapsed():.0f} s loss {means}, with {args.binding_weight} x binding {error / steps:.4f}; "
                f"order read right {right / max(1, pairs):.1%}")
            tally.zero_()
            if not np.isfinite(list(means.values())).all():
                raise SystemExit("the loss is not finite")
            sums = {}
        if time.time() - saved > args.save_every:
            backup = [p.detach().clone() for p in parameters]
            step.load_average()
            checkpoint()
            for p, b in zip(parameters, backup):
                p.data.copy_(b)
            saved = time.time()
    step.load_average()
    model.hook.remove()
    log(f"transformer: {n} steps in {clock.elapsed():.0f} s")
    return n


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--vae-seconds", type=float, default=100)
    parser.add_argument("--decoder-only", action="store_true", help="leave the encoder, and so the latents, as they are")
    parser.add_argument("--seconds", type=float, default=420)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int, default=192)
    parser.add_argument("--vae-batch", type=int, default=64, help="in 64x64 images")
    parser.add_argument("--rate", type=float, default=8e-4)
    parser.add_argument("--warmup", type=int, default=500)
    parser.add_argument("--binding-weight", type=float, default=0.2, help="of reading the shapes off T5's nouns; 0 for none")
    parser.add_argument("--directional-bias", action="store_true", help="start with one head of T5 looking ahead, one back")
    parser.add_argument("--fresh-t5", type=float, default=0, metavar="SECONDS",
                        help="replace the resumed T5 by a new one, which first learns for so long to give the same hidden states")
    parser.add_argument("--decay", type=float, default=0.999)
    parser.add_argument("--pool", type=int, default=250_000)
    parser.add_argument("--bank", type=int, default=80_000)
    parser.add_argument("--save-every", type=float, default=150)
    parser.add_argument("--eval", type=int, default=200, help="prompts to score at the end")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-graphs", dest="graphs", action="store_false", help="do without CUDA graphs")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    began, lines = time.time(), []

    def log(text):
        lines.append(f"[{time.time() - began:6.1f}] {text}")
        print(lines[-1], flush=True)
        (args.out / "flux.log").write_text("\n".join(lines) + "\n")

    torch.manual_seed(args.seed)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.enable_cudnn_sdp(False)
    clip_tokenizer, t5_tokenizer = load_tokenizers(HERE.parent / "shapes-flux")
    scenes = Scenes(args.pool, args.device, args.seed)
    log(f"{scenes.count} scenes")
    vae, transformer = make_vae(), make_transformer()
    clip, t5 = make_text_encoders(len(clip_tokenizer), len(t5_tokenizer))
    modules = {"text_encoder": clip, "text_encoder_2": t5, "transformer": transformer, "vae": vae}
    facts = {"scaling_factor": 1.0, "shift_factor": 0.0, "steps": 0}
    if args.resume:
        facts.update(load_modules(modules, args.resume, "flux"))
    old_t5 = t5
    if args.fresh_t5:
        modules["text_encoder_2"] = t5 = make_text_encoders(len(clip_tokenizer), len(t5_tokenizer))[1]
    if args.directional_bias:
        make_directional(t5)
    reader = ShapeReader(t5.config.d_model)
    for module in (*modules.values(), old_t5, reader):
        module.to(args.device)
    log({name: f"{sum(p.numel() for p in m.parameters()) / 1e6:.3f} M" for name, m in modules.items()})
    if args.vae_seconds:
        facts.update(train_vae(vae, scenes, args.vae_seconds, args.vae_batch, args.device, log, args.graphs, args.decoder_only))
    vae.eval().requires_grad_(False)
    vae.register_to_config(scaling_factor=facts["scaling_factor"], shift_factor=facts["shift_factor"])
    if args.fresh_t5:
        train_fresh_t5(t5, old_t5, reader, args.fresh_t5, scenes, args, log)
    checkpoint = lambda: save_modules(modules, facts, args.out, "flux")
    checkpoint()
    if args.seconds:
        facts["steps"] += train_transformer(clip, t5, transformer, reader, vae, facts, scenes, args.bank, args, log, checkpoint)
        checkpoint()
    if args.eval:
        pipe = make_pipeline(clip.eval(), t5.eval(), clip_tokenizer, t5_tokenizer, transformer.eval(), vae)
        pipe = pipe.to(args.device, torch.bfloat16 if args.device == "cuda" else torch.float32)
        score, images = evaluate(pipe, args.eval, batch=100 if args.device == "cuda" else 2)
        log(json.dumps(score))
        from PIL import Image
        Image.fromarray(image_grid(images[:48], 8)).save(args.out / "flux-samples.png")


if __name__ == "__main__":
    main()
