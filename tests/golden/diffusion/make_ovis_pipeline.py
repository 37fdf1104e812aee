"""A tiny random Ovis-Image pipeline, stored in bfloat16, and what diffusers draws with it in float32.

    python make_ovis_pipeline.py        (diffusers 0.42.1, transformers 5.24, torch 2.13 CPU)

ovis_pipeline/ is the folder; ovis_pipeline.safetensors holds the start noise (packed), the prompts' rows, the final latents
(packed) and the picture of a run with guidance. The tokenizer has every byte and the three special tokens of the real one.
"""
import json
from pathlib import Path

import torch
from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, OvisImagePipeline, OvisImageTransformer2DModel
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3Model

HERE = Path(__file__).resolve().parent
TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
            "{% if enable_thinking is defined and enable_thinking is false %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}{% endif %}")


def make_tokenizer():
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True) for t in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<|endoftext|>", eos_token="<|im_end|>",
                                   chat_template=TEMPLATE, padding_side="right", model_max_length=4096)


def fill(model, seed):
    generator = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=generator)
        is_norm = p.dim() == 1 and name.endswith("weight")
        fan = p[0].numel() if p.dim() > 1 else 1
        p.data = (1 + 0.2 * noise if is_norm else noise * (0.1 if p.dim() == 1 else 0.7 / fan ** 0.5)).to(torch.bfloat16).float()
    return model.eval()


def make_pipeline(tokenizer):
    torch.manual_seed(0)
    encoder = fill(Qwen3Model(Qwen3Config(vocab_size=len(tokenizer), hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                                          num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=512,
                                          rope_theta=1e6, tie_word_embeddings=True)), 11)
    transformer = fill(OvisImageTransformer2DModel(in_channels=16, out_channels=16, num_layers=1, num_single_layers=1,
                                                   attention_head_dim=16, num_attention_heads=2, joint_attention_dim=32,
                                                   axes_dims_rope=(4, 4, 8)), 12)
    vae = fill(AutoencoderKL(block_out_channels=(8, 8, 8, 8), layers_per_block=1, latent_channels=4, norm_num_groups=4,
                             down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4,
                             use_quant_conv=False, use_post_quant_conv=False, scaling_factor=0.7, shift_factor=0.1,
                             sample_size=64), 13)
    scheduler = FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True, base_shift=0.5, max_shift=1.15, shift=3.0,
                                                base_image_seq_len=256, max_image_seq_len=4096)
    return OvisImagePipeline(scheduler=scheduler, vae=vae, text_encoder=encoder, tokenizer=tokenizer, transformer=transformer)


@torch.no_grad()
def main():
    pipe = make_pipeline(make_tokenizer())
    for part in (pipe.text_encoder, pipe.transformer, pipe.vae):
        part.to(torch.bfloat16)
    pipe.save_pretrained(HERE / "ovis_pipeline")
    pipe = OvisImagePipeline.from_pretrained(HERE / "ovis_pipeline", dtype=torch.float32)  # frequencies were cast, too
    pipe.set_progress_bar_config(disable=True)
    prompt, negative, tokens = "a cat under a blue moon", "blurry", 256
    noise = torch.randn(1, 16, 16, generator=torch.Generator().manual_seed(5))
    run = dict(prompt=prompt, negative_prompt=negative, height=64, width=64, num_inference_steps=4, guidance_scale=5.0,
               max_sequence_length=tokens)
    latents = pipe(**run, latents=noise.clone(), output_type="latent").images
    image = pipe(**run, latents=noise.clone(), output_type="pt").images[0]
    rows = pipe.encode_prompt(prompt, negative, do_classifier_free_guidance=True, num_images_per_prompt=1,
                              max_sequence_length=tokens)
    tensors = {"noise": noise, "text": rows[0], "text_negative": rows[1], "latents_final": latents, "image": image}
    save_file({k: v.contiguous().clone() for k, v in tensors.items()}, HERE / "ovis_pipeline.safetensors",
              metadata={"facts": json.dumps({k: v for k, v in run.items()})})


main()
