"""Pairs of small pictures, and what scikit-image, SciPy and NumPy say of them; intervals of SciPy's bootstrap.

    python make_image_metrics.py        (scikit-image 0.26, SciPy 1.17, NumPy 2.4, Pillow 13)

Writes NAME_reference.png and NAME_candidate.png of each pair, and image_metrics.json.
"""
import json
from pathlib import Path

import numpy as np
from PIL import Image
from scipy import stats
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

HERE = Path(__file__).resolve().parent
RANDOM = np.random.default_rng(7)


def scene(height, width):
    y, x = np.mgrid[0:height, 0:width]
    picture = np.stack([x * 255 / width, y * 255 / height, 255 - x * 255 / width], axis=2)
    picture[(x - width / 3) ** 2 + (y - height / 2) ** 2 < 64] = (220, 30, 40)
    return picture


def noisy(picture, deviation):
    return picture + RANDOM.normal(0, deviation, picture.shape)


def pair(name):
    clean = scene(*{"wide": (24, 40), "smallest": (11, 11)}.get(name, (32, 32)))
    changed = {"noise": lambda: noisy(clean, 12), "shift": lambda: np.roll(clean, 2, axis=1), "wide": lambda: noisy(clean, 3),
               "smallest": lambda: noisy(clean, 30), "inverted": lambda: 255 - clean, "identical": lambda: clean}[name]()
    return [np.clip(np.round(a), 0, 255).astype(np.uint8) for a in (clean, changed)]


def distances(a, b, peak):
    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    difference = b - a
    mse = float(np.mean(difference ** 2))
    return {"cosine_similarity": float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)), "mae": float(np.mean(np.abs(difference))),
            "mse": mse, "rmse": mse ** 0.5, "max_abs": float(np.max(np.abs(difference))), "l2": float(np.linalg.norm(difference)),
            "relative_l2": float(np.linalg.norm(difference) / np.linalg.norm(a)),
            "psnr_db": None if mse == 0 else float(10 * np.log10(peak ** 2 / mse))}


def picture_case(name):
    a, b = pair(name)
    Image.fromarray(a).save(HERE / f"{name}_reference.png")
    Image.fromarray(b).save(HERE / f"{name}_candidate.png")
    expected = distances(a, b, 255)
    if expected["psnr_db"] is not None:
        expected["psnr_db"] = float(peak_signal_noise_ratio(a, b, data_range=255))
    expected["ssim"] = float(structural_similarity(a, b, channel_axis=2, gaussian_weights=True, sigma=1.5,
                                                   use_sample_covariance=False, data_range=255))
    return {"name": name, "expected": expected}


def trajectory_case():
    reference = RANDOM.normal(0, 1, (3, 5, 4)).astype(np.float32)
    candidate = (reference + RANDOM.normal(0, 0.1, reference.shape) * np.arange(3)[:, None, None]).astype(np.float32)
    return {"shape": list(reference.shape), "reference": reference.ravel().tolist(), "candidate": candidate.ravel().tolist(),
            "steps": [distances(a, b, float(a.max()) - float(a.min())) for a, b in zip(reference, candidate)]}


def interval_of_clusters(clusters, resamples=200_000):
    sums, sizes = np.array([np.sum(c) for c in clusters]), np.array([len(c) for c in clusters])
    chosen = RANDOM.integers(0, len(clusters), (resamples, len(clusters)))
    return np.percentile(sums[chosen].sum(1) / sizes[chosen].sum(1), [2.5, 97.5])


def bootstrap_cases():
    values = RANDOM.gamma(4, 5, 15)
    interval = stats.bootstrap((values,), np.mean, n_resamples=200_000, method="percentile", rng=np.random.default_rng(1))
    low, high = interval.confidence_interval
    cases = [{"clusters": [values.tolist()], "low": float(low), "high": float(high), "error": float(interval.standard_error)}]
    clusters = [(RANDOM.normal(30, 4) + RANDOM.normal(0, 0.5, n)).tolist() for n in (3, 3, 2, 4, 3, 3, 1, 3)]
    low, high = interval_of_clusters(clusters)
    cases.append({"clusters": clusters, "low": float(low), "high": float(high), "error": float((high - low) / 3.92)})
    return cases


names = ["noise", "shift", "wide", "smallest", "inverted", "identical"]
facts = {"pictures": [picture_case(n) for n in names], "trajectory": trajectory_case(), "bootstrap": bootstrap_cases()}
(HERE / "image_metrics.json").write_text(json.dumps(facts, indent=0, allow_nan=False) + "\n")
