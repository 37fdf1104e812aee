"""Omni: a model whose calls return when their pictures or texts are there."""
from __future__ import annotations

import contextlib
import select
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Union, overload

from . import _quaver
from .model import AnyRun, Model
from .outputs import OmniRequestOutput
from .sampling import OmniDiffusionSamplingParams, SamplingParams

Prompts = Union[str, Mapping[str, Any], Sequence[Union[str, Mapping[str, Any]]]]
Params = Union[OmniDiffusionSamplingParams, SamplingParams, Mapping[str, Any], Sequence[Any], None]
Bar = Union[bool, Callable[..., Any]]

_MOST_AT_ONCE = 256  # requests that wait in the engine; the others wait here


class Omni(Model):
    """A folder, a .gguf file or a repository (ORG/NAME), loaded into this process. Threads may share it.

    Keyword arguments: docs/python.md.
    """
    def __enter__(self) -> Omni:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @overload
    def generate(self, prompts: Prompts, sampling_params_list: Params = None, *, py_generator: Literal[False] = False,
                 use_tqdm: Bar = True) -> list[OmniRequestOutput]: ...

    @overload
    def generate(self, prompts: Prompts, sampling_params_list: Params = None, *, py_generator: Literal[True],
                 use_tqdm: Bar = True) -> Iterator[OmniRequestOutput]: ...

    def generate(self, prompts: Prompts, sampling_params_list: Params = None, *, py_generator: bool = False,
                 use_tqdm: Bar = True) -> Union[list[OmniRequestOutput], Iterator[OmniRequestOutput]]:
        """One output per prompt, in the prompts' order; as a generator, each as soon as it is there.

        A request that fails has `error` set and disturbs no other. Ctrl-C aborts them all.
        """
        given: Sequence[Any] = [prompts] if isinstance(prompts, (str, Mapping)) else prompts
        runs = [self._run(prompt, sampling_params_list) for prompt in given]
        outputs = self._outputs(runs, use_tqdm)
        if py_generator:
            return outputs
        for _ in outputs:
            pass
        return [run.output for run in runs]

    def _outputs(self, runs: Sequence[AnyRun], use_tqdm: Bar) -> Iterator[OmniRequestOutput]:
        box = self._mailbox()
        waiting, live = deque(runs), dict[str, AnyRun]()
        with _bar(runs, use_tqdm) as show:
            try:
                while waiting or live:
                    while waiting and len(live) < _MOST_AT_ONCE:
                        run = waiting.popleft()
                        live[run.id] = run
                        run.submit(box)
                    ended = [run for run in live.values() if run.finished] or self._listen(box, live)
                    show()
                    for run in ended:
                        del live[run.id]
                        yield run.output
            finally:
                for run in live.values():
                    run.abort()

    def _listen(self, box: Any, live: Mapping[str, AnyRun]) -> list[AnyRun]:
        """Waits for news, where Ctrl-C gets through; returns those that have ended."""
        poll = select.poll()
        poll.register(box.fileno(), select.POLLIN)
        while not poll.poll(5000):
            if not self._engine.healthy:
                raise _quaver.QuaverError("the engine has stopped")
        for event in box.take():
            run = live.get(event.request_id) or live.get(event.request_id.rpartition("-")[0])
            if run is not None and not run.finished:
                run.take(event)
        return [run for run in live.values() if run.finished]


@contextlib.contextmanager
def _bar(runs: Sequence[AnyRun], use_tqdm: Bar) -> Iterator[Callable[[], None]]:
    """Steps of pictures, or answers of text."""
    if not use_tqdm or not runs:
        yield lambda: None
        return
    import tqdm.auto

    make = tqdm.auto.tqdm if use_tqdm is True else use_tqdm
    with make(total=sum(run.work()[1] for run in runs), unit="answer" if runs[0].output.final_output_type == "text" else "step") as bar:
        def show() -> None:
            done, bar.total = map(sum, zip(*(run.work() for run in runs)))
            bar.update(done - bar.n)

        yield show
