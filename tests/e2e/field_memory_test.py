"""Reported faults of memory, named by their ids: docs/field-cases.md."""
import pytest
import synthetic_model
from peak_memory import peak_bytes

GENERATE = ["--prompt", "a", "--max-tokens", 1, "--max-model-len", 16, "--kv-cache-memory", 1 << 23]


@pytest.fixture(scope="session", params=[(0, "int4"), (8, "int4"), (0, "fp8"), (8, "nvfp4")], ids=lambda p: f"{p[1]}-{p[0]}")
def folders(request, tmp_path_factory):
    """A model of half a megabyte, one of 200 MiB, and what the latter may take: its tensors and the largest once more."""
    experts, stored = request.param
    folder = tmp_path_factory.mktemp("memory")
    synthetic_model.write(folder / "smallest", 0, **synthetic_model.SMALLEST, experts=experts, stored=stored)
    total, largest = synthetic_model.write(folder / "m", 200 << 20, width=1024 if experts else 8192, vocabulary=8192,
                                           experts=experts, shard_bytes=1 << 26, stored=stored)
    return folder / "smallest", folder / "m", total + largest


@pytest.mark.parametrize("command,flags", [("inspect", []), ("generate", GENERATE)])
def test_f130_loading_takes_the_tensors_and_the_largest_once_more(binary, folders, command, flags):
    smallest, model, limit = folders
    base = peak_bytes([binary, command, smallest, *flags])
    assert peak_bytes([binary, command, model, *flags]) - base <= limit
