"""Text from Python: completions, several answers, log-probabilities, stop strings, errors of one request."""
import pytest

from quaver import Omni, SamplingParams

PROMPT = "The capital of France is"


def greedy(**fields):
    return SamplingParams(**{"temperature": 0, "max_tokens": 8, **fields})


def one(writer, prompt=PROMPT, **fields):
    output, = writer.generate(prompt, greedy(**fields), use_tqdm=False)
    assert output.error is None and output.finished and output.final_output_type == "text"
    return output


def test_a_completion(writer):
    output = one(writer)
    answer, = output.outputs
    assert "Paris" in answer.text and len(answer.token_ids) == 8 and answer.finish_reason == "length" and answer.index == 0
    assert output.prompt == PROMPT and len(output.prompt_token_ids) == 5 and not output.images
    assert output.metrics["completion_tokens"] == 8 and output.metrics["prompt_tokens"] == 5
    assert "Paris" in repr(output) and output._repr_png_() is None
    assert one(writer, {"prompt_token_ids": output.prompt_token_ids}).outputs[0].text == answer.text


def test_batches_keep_their_order(writer):
    prompts = [f"{n} plus {n} is" for n in range(1, 6)]
    outputs = writer.generate(prompts, greedy(), use_tqdm=False)
    assert [output.prompt for output in outputs] == prompts
    assert sorted(o.prompt for o in writer.generate(prompts, greedy(), py_generator=True, use_tqdm=False)) == prompts


def test_several_answers_have_seeds_of_their_own(writer):
    output = one(writer, n=3, temperature=1, seed=5)
    texts = [answer.text for answer in output.outputs]
    assert len(set(texts)) == 3 and [answer.index for answer in output.outputs] == [0, 1, 2]
    assert one(writer, temperature=1, seed=6).outputs[0].text == texts[1]


def test_the_bar_counts_answers(writer, bars):
    writer.generate([PROMPT, ""], greedy(n=2), use_tqdm=bars.make)
    assert bars.shown == [(4, 4, "answer")]


def test_stop_strings_and_log_probabilities(writer):
    text = one(writer).outputs[0].text
    answer = one(writer, stop="Paris", logprobs=2).outputs[0]
    assert answer.text == text[:text.index("Paris")] and answer.finish_reason == "stop" and answer.stop_reason == "Paris"
    assert len(answer.logprobs) == len(answer.token_ids)
    first = answer.logprobs[0][answer.token_ids[0]]
    assert first.rank == 1 and first.logprob < 0 and text.startswith(first.decoded_token)
    prompt = one(writer, prompt_logprobs=1)
    assert prompt.prompt_logprobs[0] is None and len(prompt.prompt_logprobs) == len(prompt.prompt_token_ids)


def test_banned_and_biased_tokens(writer):
    paris = next(token for token in one(writer).outputs[0].token_ids)
    assert one(writer, logit_bias={paris: -100}).outputs[0].token_ids[0] != paris
    assert one(writer, allowed_token_ids=[paris], max_tokens=2).outputs[0].token_ids == [paris, paris]


@pytest.mark.parametrize("prompt, fields, words", [
    ("", {}, "prompt"),
    (PROMPT, {"temperature": -1}, "temperature"),
    (PROMPT, {"max_tokens": 10**6}, "max_tokens"),
    ({"prompt_token_ids": [10**8]}, {}, "10000000"),
])
def test_an_error_ends_its_request_alone(writer, prompt, fields, words):
    given = prompt if isinstance(prompt, dict) else {"prompt": prompt}
    bad, good = writer.generate([{**given, "sampling_params": greedy(**fields)}, PROMPT], greedy(), use_tqdm=False)
    assert words in bad.error and bad.error_status_code == 400 and bad.finished
    assert "Paris" in good.outputs[0].text


def test_what_is_not_supported_is_named(writer):
    for fields in ({"bad_words": ["x"]}, {"structured_outputs": {}}, {"detokenize": False}):
        with pytest.raises(NotImplementedError, match=next(iter(fields))):
            writer.generate(PROMPT, SamplingParams(**fields))
    with pytest.raises(NotImplementedError, match="models of pictures"):
        writer.generate({"prompt": PROMPT, "negative_prompt": "x"})
    with pytest.raises(TypeError, match="did you mean top_p"):
        writer.generate(PROMPT, {"topp": 1})


def test_all_that_the_context_holds(writer):
    output = one(writer, max_tokens=None, stop=["."])
    assert output.outputs[0].finish_reason == "stop"


def test_options_of_text_models(smollm2):
    with pytest.raises(ValueError, match="cache is for models of pictures"):
        Omni(smollm2, cache="teacache")
    with pytest.raises(ValueError, match="parallel_config is for models of pictures"):
        Omni(smollm2, parallel_config={})
    with Omni(smollm2, max_model_len=64, dtype="bfloat16", kv_cache_dtype="fp8", enable_prefix_caching=False) as omni:
        assert omni.generate(PROMPT, {"max_tokens": 2}, use_tqdm=False)[0].outputs[0].finish_reason == "length"
        assert omni.generate(PROMPT, use_tqdm=False)[0].metrics["completion_tokens"] == 16
