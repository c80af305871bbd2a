#!/usr/bin/env python3
"""Compute the figures of cases.json from their definitions, with nothing but
the standard library and exact fractions where the definition allows, and
write them to figures.json.

    python3 recount.py
"""
import json, math, pathlib
from fractions import Fraction

here = pathlib.Path(__file__).parent


def psi(reference, current):
    r, c = sum(reference.values()), sum(current.values())
    total = 0.0
    for topic in sorted(set(reference) | set(current)):
        a = max(reference.get(topic, 0) / r, 1e-4)
        b = max(current.get(topic, 0) / c, 1e-4)
        total += (b - a) * math.log(b / a)
    return total


def jensen_shannon(reference, current):
    r, c = sum(reference.values()), sum(current.values())
    divergence = 0.0
    for topic in sorted(set(reference) | set(current)):
        p, q = reference.get(topic, 0) / r, current.get(topic, 0) / c
        m = (p + q) / 2
        for x in (p, q):
            if x:
                divergence += x / 2 * math.log2(x / m)
    return math.sqrt(max(0, divergence))


def distribution(values):
    return lambda x: Fraction(sum(v <= x for v in values), len(values))


def kolmogorov_smirnov(a, b):
    f, g = distribution(a), distribution(b)
    return float(max(abs(f(x) - g(x)) for x in a + b))


def p_value(d, n, m):
    e = math.sqrt(n * m / (n + m))
    x = (e + 0.12 + 0.11 / e) * d
    if x < 0.05:
        return 1.0
    return min(1.0, max(0.0, 2 * math.fsum((-1) ** (k - 1) * math.exp(-2 * k * k * x * x) for k in range(1, 2000))))


def wasserstein(a, b):
    f, g, points = distribution(a), distribution(b), sorted(set(a + b))
    return math.fsum(float(abs(f(x) - g(x))) * (y - x) for x, y in zip(points, points[1:]))


def deviation(values):
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))


figures = []
for case in json.loads((here / "cases.json").read_text()):
    if "topics" in case:
        r, c = case["topics"]
        figures.append({"name": case["name"], "psi": psi(r, c), "jensen_shannon": jensen_shannon(r, c)})
    else:
        a, b = case["scores"]
        d = kolmogorov_smirnov(a, b)
        figures.append({"name": case["name"], "d": d, "p": p_value(d, len(a), len(b)),
                        "critical": math.sqrt(-math.log(0.025) / 2 * (len(a) + len(b)) / (len(a) * len(b))),
                        "wasserstein": wasserstein(a, b), "deviation": deviation(a)})
(here / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")
