"""AsyncOmni: many at once on one loop, text as it comes, aborts, health."""
import asyncio

import pytest

from conftest import PROMPT, SHAPES
from quaver import AsyncOmni, OmniDiffusionSamplingParams, QuaverError, SamplingParams

FAST = OmniDiffusionSamplingParams(height=64, width=64, num_inference_steps=2, seed=7)
LONG = OmniDiffusionSamplingParams(height=64, width=64, num_inference_steps=1000)


@pytest.fixture(scope="module")
def drawer():
    omni = AsyncOmni(model=SHAPES)
    yield omni
    omni.close()


async def last(outputs):
    async for output in outputs:
        final = output
    return final


def test_many_at_once_while_the_loop_runs(drawer, shapes):
    async def main():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.001)
                ticks += 1

        ticker = asyncio.create_task(tick())
        outputs = await asyncio.gather(*(last(drawer.generate(PROMPT, FAST, f"request-{i}")) for i in range(3)))
        ticker.cancel()
        assert ticks > 10
        return outputs

    outputs = asyncio.run(main())
    assert [output.request_id for output in outputs] == ["request-0", "request-1", "request-2"]
    expected, = shapes.generate(PROMPT, FAST, use_tqdm=False)
    assert {output.images[0].tobytes() for output in outputs} == {expected.images[0].tobytes()}


def test_abort_and_leaving(drawer):
    async def main():
        task = asyncio.create_task(last(drawer.generate(PROMPT, LONG, "long")))
        await asyncio.sleep(0.2)
        with pytest.raises(ValueError, match="'long' is in use"):
            await last(drawer.generate(PROMPT, LONG, "long"))
        await drawer.abort("long")
        output = await task
        assert output.error == "the request was aborted" and output.error_status_code == 499
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(last(drawer.generate(PROMPT, LONG)), 0.2)
        assert (await last(drawer.generate(PROMPT, FAST))).images
        await drawer.check_health()

    asyncio.run(asyncio.wait_for(main(), 60))


def test_text_comes_as_it_is_written(smollm2):
    async def main():
        async with AsyncOmni(smollm2, max_model_len=128) as omni:
            outputs = [output async for output in omni.generate("One, two, three,", SamplingParams(temperature=0, max_tokens=6))]
            texts = [output.outputs[0].text for output in outputs]
            assert len(outputs) > 2 and all(b.startswith(a) for a, b in zip(texts, texts[1:]))
            assert [output.finished for output in outputs] == [False] * (len(outputs) - 1) + [True]
            async for output in omni.generate("Count:", SamplingParams(max_tokens=100, ignore_eos=True)):
                break
            assert not output.finished
        with pytest.raises(QuaverError, match="stopped"):
            await omni.check_health()

    asyncio.run(main())


def test_what_is_not_there_is_named(drawer):
    with pytest.raises(AttributeError, match="sleep is not supported yet"):
        drawer.sleep
    with pytest.raises(AttributeError, match="has no 'slep'"):
        drawer.slep
    with pytest.raises(NotImplementedError, match="priority"):
        asyncio.run(last(drawer.generate(PROMPT, FAST, priority=1)))
