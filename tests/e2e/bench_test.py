"""quaver bench as a user runs it: the rows asked for, both outputs, numbers that make sense, bad arguments."""
import json
import re


def test_table_has_llama_benchs_columns(run, tiny_model):
    lines = run("bench", tiny_model, "-p", 32, "-n", 8, "--pg", "32,8", "-r", 2).stdout.splitlines()
    assert lines[0] == "| model | size | params | backend | threads | test | t/s |"
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    assert [row[5] for row in rows] == ["pp32", "tg8", "pp32+tg8"]
    assert all(row[0] == "model" and row[3] == "CPU" and re.fullmatch(r"[\d.]+ ± [\d.]+", row[6]) for row in rows)


def test_json_has_every_sample(run, tiny_model):
    rows = json.loads(run("bench", tiny_model, "-p", 16, "-n", 4, "-d", "0,64", "-s", "1,3", "-r", 2, "-o", "json").stdout)
    assert [row["test"] for row in rows] == [
        f"{kind}{depth}{sequences}" for depth in ("", " @ d64") for sequences in ("", " x3") for kind in ("pp16", "tg4")]
    for row in rows:
        assert len(row["samples_ts"]) == 2 and min(row["samples_ts"]) > 0
        assert abs(sum(row["samples_ts"]) / 2 - row["avg_ts"]) < 1e-6 * row["avg_ts"]
    # 384 x 128 embeddings, and four layers of 128 x (128 + 64 + 64 + 128) + 3 x 128 x 256
    assert rows[0]["model_n_params"] == 384 * 128 + 4 * (128 * 384 + 3 * 128 * 256)


def test_one_thread_is_one_thread(run, tiny_model):
    rows = json.loads(run("bench", tiny_model, "-p", 16, "-n", 0, "-r", 1, "-t", 1, "-o", "json").stdout)
    assert rows[0]["n_threads"] == 1


def test_bad_arguments_are_named(run, tiny_model):
    assert "takes 512" in run("bench", tiny_model, "-p", 5000, "-n", 0, status=2).stderr
    assert "--pg" in run("bench", tiny_model, "--pg", "5", status=2).stderr
    assert "both 0" in run("bench", tiny_model, "-p", 0, "-n", 0, status=2).stderr
    assert "--output" in run("bench", tiny_model, "-o", "csv", status=2).stderr
    run("bench", status=2)
